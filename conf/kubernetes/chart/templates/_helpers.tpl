{{- /* The configuration as JSON: values, and over them `config`. */ -}}
{{- define "meshdns.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- $listen := list -}}
{{- range .Values.addresses -}}
{{- $listen = append $listen (printf (ternary "[%s]:53" "%s:53" (contains ":" .)) .) -}}
{{- end -}}
{{- if and .Values.cilium .Values.kernelAnswers -}}
{{- fail "kernelAnswers needs addresses of the node: set cilium or kernelAnswers to false" -}}
{{- end -}}
{{- if not (contains "\"unix:/run/meshdns/own/admin.sock\"" (toJson $config.admin.listen)) -}}
{{- fail "config.admin.listen must have unix:/run/meshdns/own/admin.sock: the probes ask there" -}}
{{- end -}}
{{- if .Values.cilium -}}
{{- $listen = list "[::]:53" -}}
{{- if not (hasKey $config.server "lameduck") -}}{{- $_ := set $config.server "lameduck" "5s" -}}{{- end -}}
{{- else if and .Values.handover (not (hasKey $config.server "handover")) -}}
{{- $_ := set $config.server "handover" "/run/meshdns-handover/socket" -}}
{{- end -}}
{{- if not (hasKey $config.server "listen") -}}{{- $_ := set $config.server "listen" $listen -}}{{- end -}}
{{- if and .Values.kernelAnswers (not (hasKey $config.server "kernel_answers")) -}}{{- $_ := set $config.server "kernel_answers" "auto" -}}{{- end -}}
{{- if not (hasKey $config.mesh "cluster_domain") -}}{{- $_ := set $config.mesh "cluster_domain" .Values.clusterDomain -}}{{- end -}}
{{- if not (hasKey $config.upstream "servers") -}}{{- $_ := set $config.upstream "servers" .Values.forwarders -}}{{- end -}}
{{- if and .Values.metricsTls (not (hasKey $config.admin "metrics_cert_file")) -}}
{{- $_ := set $config.admin "metrics_cert_file" "/etc/meshdns-metrics/tls.crt" -}}
{{- $_ := set $config.admin "metrics_key_file" "/etc/meshdns-metrics/tls.key" -}}
{{- $_ := set $config.admin "metrics_password_file" "/etc/meshdns-metrics/passwords" -}}
{{- end -}}
{{- toJson $config -}}
{{- end -}}
