package configs_test

import (
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/memory"
)

// manifest is what the test reads of a resource.
type manifest struct {
	Kind       string
	Data       map[string]string
	StringData map[string]string `yaml:"stringData"`
	Spec       struct {
		Selector struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		}
		PodSelector struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		} `yaml:"podSelector"`
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct{ Containers []container }
		}
		VolumeClaimTemplates []struct{ Metadata struct{ Name string } } `yaml:"volumeClaimTemplates"`
	}
}

type container struct {
	Args  []string
	Ports []struct {
		Name          string
		ContainerPort string `yaml:"containerPort"`
	}
	StartupProbe   probe `yaml:"startupProbe"`
	LivenessProbe  probe `yaml:"livenessProbe"`
	ReadinessProbe probe `yaml:"readinessProbe"`
	Resources      struct{ Limits struct{ Memory string } }
	VolumeMounts   []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
}

type probe struct {
	HTTPGet struct {
		Path, Port  string
		HTTPHeaders []struct{ Name, Value string } `yaml:"httpHeaders"`
	} `yaml:"httpGet"`
}

// TestKubernetes: the manifests fit together and the daemon: the configuration of the ConfigMap is one that this build
// takes, within the memory of the container; its paths are on the volume, the probes ask its health address, without a
// password; the selectors find the pod.
func TestKubernetes(t *testing.T) {
	file, err := os.Open("kubernetes/refitd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	found := make(map[string]manifest)
	decoder := yaml.NewDecoder(file)
	for {
		var m manifest
		if err := decoder.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		found[m.Kind] = m
	}
	for _, kind := range []string{"ConfigMap", "Secret", "Service", "StatefulSet", "PodDisruptionBudget",
		"NetworkPolicy"} {
		if found[kind].Kind == "" {
			t.Fatalf("no %s among the manifests", kind)
		}
	}
	dir := t.TempDir()
	secret := found["Secret"].StringData
	web := filepath.Join(dir, "web.yml")
	text := found["ConfigMap"].Data["refitd.yaml"]
	if !strings.Contains(text, "/etc/refitd-web/web.yml") {
		t.Errorf("the configuration does not name the web file of the secret:\n%s", text)
	}
	path := filepath.Join(dir, "refitd.yaml")
	for name, content := range map[string]string{web: secret["web.yml"], path: strings.ReplaceAll(text,
		"/etc/refitd-web/web.yml", web)} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	conf, err := config.LoadWith(path, config.Exceptions{Memory: memory.Of})
	if err != nil {
		t.Fatal(err)
	}
	pod := found["StatefulSet"].Spec.Template
	if len(pod.Spec.Containers) != 1 {
		t.Fatalf("%d containers", len(pod.Spec.Containers))
	}
	c := pod.Spec.Containers[0]
	var limit config.Size
	if err := yaml.Unmarshal([]byte(c.Resources.Limits.Memory+"B"), &limit); err != nil {
		t.Fatal(err)
	}
	if used := memory.Of(conf); conf.MemoryBudget == 0 || used.TotalBytes > int64(conf.MemoryBudget) ||
		int64(conf.MemoryBudget) >= int64(limit) {
		t.Errorf("memory: %d bytes at most, memory_budget %d, limit of the container %s", used.TotalBytes,
			conf.MemoryBudget, c.Resources.Limits.Memory)
	}
	mounted := make(map[string]string)
	for _, m := range c.VolumeMounts {
		mounted[m.Name] = m.MountPath
	}
	claims := found["StatefulSet"].Spec.VolumeClaimTemplates
	for _, kept := range []string{conf.Storage.Path, conf.Models[0].Publish.Store} {
		if len(claims) != 1 || !strings.HasPrefix(kept, mounted[claims[0].Metadata.Name]+"/") {
			t.Errorf("%s is not on the volume %v", kept, claims)
		}
	}
	if mounted["config"] != "/etc/refitd" || mounted["web"] != "/etc/refitd-web" ||
		!strings.Contains(strings.Join(c.Args, " "), "/etc/refitd/refitd.yaml") {
		t.Errorf("mounts %v, arguments %v", mounted, c.Args)
	}
	if u, err := url.Parse("http://" + conf.Web.ListenAddress); err != nil || u.Port() != "9464" {
		t.Errorf("address %s, %v", conf.Web.ListenAddress, err)
	}
	ports := make(map[string]string)
	for _, p := range c.Ports {
		ports[p.Name] = p.ContainerPort
	}
	if _, port, err := net.SplitHostPort(conf.Web.HealthAddress); err != nil || port != ports["health"] ||
		ports["web"] != "9464" {
		t.Errorf("health address %s, %v, ports of the container %v", conf.Web.HealthAddress, err, ports)
	}
	for want, p := range map[string]probe{"startup /-/healthy": c.StartupProbe, "liveness /-/healthy": c.LivenessProbe,
		"readiness /-/ready": c.ReadinessProbe} {
		get := p.HTTPGet
		if !strings.HasSuffix(want, " "+get.Path) || get.Port != "health" || len(get.HTTPHeaders) > 0 {
			t.Errorf("%s: %+v", want, get)
		}
	}
	for _, kind := range []string{"StatefulSet", "PodDisruptionBudget"} {
		if l := found[kind].Spec.Selector.MatchLabels; len(l) == 0 || !within(l, pod.Metadata.Labels) {
			t.Errorf("%s selects %v, the pod has %v", kind, l, pod.Metadata.Labels)
		}
	}
	if l := found["NetworkPolicy"].Spec.PodSelector.MatchLabels; len(l) == 0 || !within(l, pod.Metadata.Labels) {
		t.Errorf("NetworkPolicy selects %v, the pod has %v", l, pod.Metadata.Labels)
	}
}

func within(some, all map[string]string) bool {
	for k, v := range some {
		if all[k] != v {
			return false
		}
	}
	return true
}
