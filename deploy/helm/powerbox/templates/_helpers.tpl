{{- define "powerbox.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag }}
{{- end -}}
{{- define "powerbox.pod" -}}
automountServiceAccountToken: false
securityContext: {runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, fsGroup: 65532, seccompProfile: {type: RuntimeDefault}}
terminationGracePeriodSeconds: 60
{{- end -}}
{{- define "powerbox.container" -}}
securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
{{- end -}}
{{- define "powerbox.probes" -}}
livenessProbe: {httpGet: {path: /livez, port: main, scheme: HTTPS}, periodSeconds: 10}
readinessProbe: {httpGet: {path: /readyz, port: main, scheme: HTTPS}, periodSeconds: 5}
{{- end -}}
