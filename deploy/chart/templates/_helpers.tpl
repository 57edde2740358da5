{{- /* Names of Services begin with a letter; a release's need not. */ -}}
{{- define "reverser.name" -}}
{{- $name := .Release.Name | replace "." "-" -}}
{{- if regexMatch "^[0-9]" $name }}{{ $name = printf "r-%s" $name }}{{ end -}}
{{- $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "reverser.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "reverser.name" .) -}}
{{- else -}}
{{- required "serviceAccount.create=false needs serviceAccount.name: the one that you have made" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "reverser.labels" -}}
app.kubernetes.io/name: gitops-reverser
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "reverser.selector" -}}
app.kubernetes.io/name: gitops-reverser
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "reverser.auditSecret" -}}
{{- .Values.certificates.audit.secretName | default (printf "%s-audit-server" (include "reverser.name" .)) -}}
{{- end -}}

{{- define "reverser.admissionSecret" -}}
{{- .Values.certificates.admission.secretName | default (printf "%s-admission-server" (include "reverser.name" .)) -}}
{{- end -}}

{{- define "reverser.metricsSecret" -}}
{{- .Values.certificates.metrics.secretName | default (printf "%s-metrics-server" (include "reverser.name" .)) -}}
{{- end -}}

{{- define "reverser.image" -}}
{{- with .Values.image.digest }}{{ $.Values.image.repository }}@{{ . }}{{ else }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end -}}
{{- end -}}

{{- define "reverser.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- /* The volume mounts that every container has. Argument: the root context. */ -}}
{{- define "reverser.mounts" -}}
- name: state
  mountPath: /state
- name: tmp
  mountPath: /tmp
{{- if .Values.connections.existingSecret }}
- name: connections
  mountPath: /connections
  readOnly: true
{{- end }}
{{- end -}}

{{- /* One pod. Arguments: root, component, args or command, grace, port (number), portName, state (volume or empty),
       migrate (bool). */ -}}
{{- define "reverser.pod" -}}
{{- $root := .root -}}
{{- $values := .root.Values -}}
{{- $ingress := or (eq .component "web") (eq .component "single") -}}
metadata:
  annotations:
    checksum/settings: {{ include (print $root.Template.BasePath "/settings.yaml") $root | sha256sum | quote }}
    {{- with $values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  labels:
    {{- include "reverser.selector" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
    {{- if $ingress }}
    configbutler.ai/ingress: "true"
    {{- end }}
    {{- with $values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "reverser.serviceAccount" $root | quote }}
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .grace }}
  {{- with $values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.priorityClassName }}
  priorityClassName: {{ . | quote }}
  {{- end }}
  {{- with $values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    seccompProfile:
      type: RuntimeDefault
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "reverser.selector" $root | nindent 10 }}
          app.kubernetes.io/component: {{ .component }}
  {{- if .migrate }}
  initContainers:
    # Waits for the database and brings its tables up to date, one replica at a time.
    - name: database
      image: {{ include "reverser.image" $root | quote }}
      imagePullPolicy: {{ $values.image.pullPolicy }}
      args: [prepare_database]
      envFrom:
        - configMapRef:
            name: {{ include "reverser.name" $root }}-settings
      {{- with $values.extraEnv }}
      env:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      resources:
        requests: {cpu: 10m, memory: 128Mi}
        limits: {memory: 512Mi}
      securityContext:
        {{- include "reverser.containerSecurity" $root | nindent 8 }}
      volumeMounts:
        {{- include "reverser.mounts" $root | nindent 8 }}
  {{- end }}
  containers:
    - name: reverser
      image: {{ include "reverser.image" $root | quote }}
      imagePullPolicy: {{ $values.image.pullPolicy }}
      {{- with .args }}
      args: {{ toJson . }}
      {{- end }}
      {{- with .command }}
      command: {{ toJson . }}
      {{- end }}
      envFrom:
        - configMapRef:
            name: {{ include "reverser.name" $root }}-settings
      env:
        - name: POD_NAMESPACE
          valueFrom:
            fieldRef:
              fieldPath: metadata.namespace
        {{- with $values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        - name: {{ .portName }}
          containerPort: {{ .port }}
        {{- if and $ingress $values.attribution.enabled }}
        - name: audit
          containerPort: 9444
        {{- end }}
        {{- if and $ingress $values.admission.enabled }}
        - name: admission
          containerPort: 9443
        {{- end }}
        {{- if $values.metrics.tls }}
        - name: metrics-tls
          containerPort: 8443
        {{- end }}
      {{- if eq .component "web" }}
      lifecycle:
        preStop: # Services go on sending for a moment; sockets that are closed already would lose that.
          exec:
            command: [sleep, "5"]
      {{- end }}
      readinessProbe:
        httpGet:
          path: /readyz
          port: {{ .portName }}
        initialDelaySeconds: 5
        periodSeconds: 10
        timeoutSeconds: 5
      livenessProbe:
        httpGet:
          path: /healthz
          port: {{ .portName }}
        initialDelaySeconds: {{ eq .component "single" | ternary 60 15 }}
        periodSeconds: 20
        timeoutSeconds: 5
        failureThreshold: 6
      resources:
        {{- toYaml (index $values.resources .component) | nindent 8 }}
      securityContext:
        {{- include "reverser.containerSecurity" $root | nindent 8 }}
      volumeMounts:
        {{- include "reverser.mounts" $root | nindent 8 }}
        {{- if and $ingress $values.attribution.enabled }}
        - name: audit-certificate
          mountPath: /certificates/audit
          readOnly: true
        {{- end }}
        {{- if and $ingress $values.admission.enabled }}
        - name: admission-certificate
          mountPath: /certificates/admission
          readOnly: true
        {{- end }}
        {{- if $values.metrics.tls }}
        - name: metrics-certificate
          mountPath: /certificates/metrics
          readOnly: true
        {{- end }}
  volumes:
    - name: tmp
      emptyDir:
        medium: Memory
        sizeLimit: 64Mi
    {{- if ne .component "single" }}
    - name: state
      emptyDir: {}
    {{- end }}
    {{- with $values.connections.existingSecret }}
    - name: connections
      secret:
        secretName: {{ . | quote }}
        defaultMode: 0440
    {{- end }}
    {{- /* Optional: the process waits for the files, and its readiness says so. */}}
    {{- if and $ingress $values.attribution.enabled }}
    - name: audit-certificate
      secret:
        secretName: {{ include "reverser.auditSecret" $root | quote }}
        optional: true
        items:
          - {key: tls.crt, path: tls.crt}
          - {key: tls.key, path: tls.key}
          - {key: ca.crt, path: ca.crt}
    {{- end }}
    {{- if and $ingress $values.admission.enabled }}
    - name: admission-certificate
      secret:
        secretName: {{ include "reverser.admissionSecret" $root | quote }}
        optional: true
    {{- end }}
    {{- if $values.metrics.tls }}
    - name: metrics-certificate
      secret:
        secretName: {{ include "reverser.metricsSecret" $root | quote }}
        optional: true
        items:
          - {key: tls.crt, path: tls.crt}
          - {key: tls.key, path: tls.key}
    {{- end }}
{{- end -}}
