# SPDX-License-Identifier: Apache-2.0
"""systemd-resolved as the daemon sees it over D-Bus, with a network link whose domains come and go.

`python3 network_links.py SEED ADDRESS:PORT DOMAIN...` serves on the bus of DBUS_SYSTEM_BUS_ADDRESS.
"""

import ipaddress
import random
import sys

import dbus
import dbus.mainloop.glib
import dbus.service
from gi.repository import GLib

_SERVICE = "org.freedesktop.resolve1"
_PROPERTIES = "org.freedesktop.DBus.Properties"
_TURN = 300  # milliseconds
_LINK = 2


class _Resolved(dbus.service.FallbackObject):
    def __init__(self, bus, seed, server, domains):
        super().__init__(bus, "/org/freedesktop/resolve1")
        self._bus, self._chance = bus, random.Random(f"{seed}-links")
        address, _, port = server.rpartition(":")
        octets = dbus.ByteArray(ipaddress.ip_address(address).packed)
        self._server = dbus.Struct((_LINK, 2, octets, dbus.UInt16(port), ""), signature="iiayqs")
        self._domains = self._shown = domains
        self._turn()
        GLib.timeout_add(_TURN, self._turn)

    def _turn(self):
        """Other domains, or the service goes until the next turn."""
        self._shown = [domain for domain in self._domains if self._chance.random() < 0.5]
        if self._chance.random() < 0.1:
            self._bus.release_name(_SERVICE)
        else:
            self._bus.request_name(_SERVICE)
            self.PropertiesChanged(f"{_SERVICE}.Manager", {}, ["DNSEx", "Domains"])
        return True

    @dbus.service.method(_PROPERTIES, "s", "a{sv}")
    def GetAll(self, _):
        domains = [dbus.Struct((_LINK, domain, True), signature="isb") for domain in self._shown]
        return {"DNSEx": dbus.Array([self._server] if self._shown else [], signature="(iiayqs)"),
                "Domains": dbus.Array(domains, signature="(isb)")}

    @dbus.service.method(_PROPERTIES, "ss", "v")
    def Get(self, interface, name):
        return dbus.Boolean(False)  # DefaultRoute

    @dbus.service.signal(_PROPERTIES, "sa{sv}as")
    def PropertiesChanged(self, interface, changed, invalidated):
        pass


if __name__ == "__main__":
    dbus.mainloop.glib.DBusGMainLoop(set_as_default=True)
    resolved = _Resolved(dbus.SystemBus(), sys.argv[1], sys.argv[2], sys.argv[3:])
    print("ready", flush=True)
    GLib.MainLoop().run()
