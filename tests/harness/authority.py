# SPDX-License-Identifier: Apache-2.0
"""Certificates, by openssl."""

import subprocess

_OF_AN_AUTHORITY = ["basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign,cRLSign"]


def name_with_nul(name):
    """The subjectAltName with the one DNS name NAME\\0.example.org."""
    text = name.encode() + b"\0.example.org"
    octets = bytes([0x30, len(text) + 2, 0x82, len(text)]) + text
    return "subjectAltName=DER:" + ":".join(f"{octet:02X}" for octet in octets)


class Authority:
    """A certificate authority in a directory of its own, and what it issues."""

    def __init__(self, directory, name="ca", issuer=None):
        self.directory, self.name, self.issuer = directory, name, issuer
        if not issuer:
            self.openssl("req", "-x509", *self.new_key(name), "-days", "30", "-subj", f"/CN={name}", "-out", f"{name}.crt",
                         *(word for extension in _OF_AN_AUTHORITY for word in ("-addext", extension)))
        else:
            issuer.issue(name, "\n".join(_OF_AN_AUTHORITY))

    def openssl(self, *arguments):
        subprocess.run(["openssl", *arguments], cwd=self.directory, check=True, capture_output=True, timeout=60)

    @staticmethod
    def new_key(name):
        return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", f"{name}.key"]

    def issue(self, name, extensions, begin="20200101000000Z", end="20990101000000Z"):
        """(certificate, key), good from `begin` to `end`."""
        self.openssl("req", "-new", *self.new_key(name), "-subj", f"/CN={name}", "-out", f"{name}.csr")
        (self.directory / f"{name}.ext").write_text(f"[extensions]\n{extensions}\n")
        (self.directory / f"{self.name}.index").write_text("")
        (self.directory / f"{self.name}.cnf").write_text(
            f"[ca]\ndefault_ca=this\n[this]\ndatabase={self.name}.index\nnew_certs_dir=.\nrand_serial=yes\n"
            "default_md=sha256\npolicy=any\n[any]\ncommonName=supplied\n")
        self.openssl("ca", "-batch", "-notext", "-config", f"{self.name}.cnf", "-cert", f"{self.name}.crt", "-keyfile",
                     f"{self.name}.key", "-in", f"{name}.csr", "-out", f"{name}.crt", "-startdate", begin, "-enddate",
                     end, "-extfile", f"{name}.ext", "-extensions", "extensions")
        return self.directory / f"{name}.crt", self.directory / f"{name}.key"

    @property
    def certificate(self):
        return self.directory / f"{self.name}.crt"
