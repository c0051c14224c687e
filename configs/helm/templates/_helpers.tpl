{{- define "refitd.selector" -}}
app.kubernetes.io/name: refitd
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
{{- define "refitd.labels" -}}
{{ include "refitd.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}
{{- define "refitd.password" -}}
{{ required "auth.password: got an empty one, expected the password that the HTTP surface asks for: --set auth.password=..." .Values.auth.password }}
{{- end -}}
