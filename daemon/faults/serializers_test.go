package faults_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// apicurioScript starts Apicurio Registry, or ends with missingCode.
const apicurioScript = "../../.ci/apicurio/start"

// apicurio starts Apicurio Registry and returns the URL at which it answers as Confluent's does, and how it is killed.
func apicurio(t *testing.T) (url string, kill func()) {
	t.Helper()
	out, err := exec.Command(apicurioScript, "--fetch").CombinedOutput()
	if e, ok := errors.AsType[*exec.ExitError](err); ok && e.ExitCode() == missingCode {
		t.Skipf("no Apicurio Registry here: %s", bytes.TrimSpace(out))
	}
	ports, err := freePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(apicurioScript, fmt.Sprint(ports[0]))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	kill = func() {
		if !killed {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			_ = cmd.Wait()
		}
		killed = true
	}
	t.Cleanup(kill)
	url = fmt.Sprintf("http://127.0.0.1:%d/apis/ccompat/v7", ports[0])
	within(t, time.Minute, func() error {
		r, err := http.Get(url + "/subjects")
		if err != nil {
			return err
		}
		return r.Body.Close()
	})
	return url, kill
}

// TestPythonSerializers: what the serializers of confluent-kafka write in Avro, in Protobuf and behind a JSON Schema,
// with references and with schemas that change, is read by the schemas that they register at Apicurio Registry. Then
// the registry is gone, and the state, the events behind it and its proof need it no more.
func TestPythonSerializers(t *testing.T) {
	tier.Need(t, tier.Kills)
	const modules = "import confluent_kafka.schema_registry.avro, confluent_kafka.schema_registry.protobuf, " +
		"confluent_kafka.schema_registry.json_schema"
	if out, err := exec.Command("python3", "-c", modules).CombinedOutput(); err != nil {
		t.Skipf("the serializers of confluent-kafka are not installed: %v: %s", err, bytes.TrimSpace(out))
	}
	url, kill := apicurio(t)
	addr := embedded(t)
	a := admin(t, addr)
	topics := []string{"as-avro", "as-protobuf", "as-json"}
	for _, topic := range topics {
		makeTopic(t, a, topic, 2, 1)
	}
	const each = 300
	send := func() {
		t.Helper()
		args := append([]string{"testdata/serializers.py", url, addr[0], fmt.Sprint(each)}, topics...)
		if out, err := exec.Command("python3", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	config := configure(t, "serializers", settings{brokers: addr, topics: topics,
		kafka: fmt.Sprintf("schema_registry: {url: %q}", url),
		input: "format: auto, mapping: {fields: [{name: item, path: what.item}]}"})
	read := func(n float64) {
		t.Helper()
		c := run(t, refitd, config, nil)
		for _, topic := range topics {
			c.caughtUp(time.Minute, topic, ends(t, a, topic))
		}
		for _, format := range []string{"avro", "protobuf", "json_schema"} {
			got, err := c.metric("refitd_events_by_format_total", `format="`+format+`"`)
			if err != nil || got != n {
				t.Errorf("%g events in %s of %g: %v", got, format, n, err)
			}
		}
		for _, name := range []string{"refitd_events_rejected_total", "refitd_schema_loses_field"} {
			if got, err := c.metric(name); got != 0 && err == nil {
				t.Errorf("%s is %g", name, got)
			}
		}
		applied := int64(0)
		for _, p := range c.stopClean().Partitions {
			if applied += p.Applied; p.Rejected > 0 {
				t.Errorf("%+v", p)
			}
		}
		if applied%int64(3*each) != 0 || applied == 0 {
			t.Errorf("%d events in the state", applied)
		}
		proved(t, config)
	}
	send()
	read(each)
	t.Logf("%d events of the serializers of confluent-kafka are read", 3*each)
	send()
	kill()
	if _, err := http.Get(url + "/subjects"); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Fatalf("the registry still answers: %v", err)
	}
	read(each)
}
