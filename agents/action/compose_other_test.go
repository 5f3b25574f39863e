package action

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"pgregory.net/rapid"
)

// elsewhere is what Compose's own reader, which docker compose has, makes of a
// file: every field that it knows, in its long form.
func elsewhere(text string) (string, error) {
	details := types.ConfigDetails{
		WorkingDir:  "/",
		ConfigFiles: []types.ConfigFile{{Filename: composeFile, Content: []byte(text)}},
		Environment: types.Mapping{},
	}
	project, err := loader.LoadWithContext(context.Background(), details, func(o *loader.Options) {
		o.SetProjectName("mbox", true)
		o.SkipInterpolation, o.ResolvePaths = true, false
		o.SkipNormalization, o.SkipDefaultValues, o.SkipResolveEnvironment = true, true, true
	})
	if err != nil {
		return "", err
	}
	project.Extensions = nil
	out, err := project.MarshalYAML()
	return emptyOptions.ReplaceAllString(string(out), ""), err
}

var emptyOptions = regexp.MustCompile(`\n *volume: {}`) // the same as none

// Where mbox allows a file, what docker gets means to Compose's own reader what the
// file meant. That refuses both if two fields contradict each other, such as cpus
// and deploy.resources.limits.cpus: those docker compose is left to compare.
func readsAsElsewhere(t interface {
	Helper()
	Fatalf(string, ...any)
}, text string,
) (allowed bool) {
	t.Helper()
	p, err := loadCompose(text)
	if err != nil {
		return false
	}
	given, err := p.text()
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	want, refused := elsewhere(text)
	got, err := elsewhere(string(given))
	if (err == nil) != (refused == nil) || got != want {
		t.Fatalf("%s\nis run as\n%s\nwhich means %v, not %v\n%s", text, given, err, refused, unlike(got, want))
	}
	if refused != nil && !strings.Contains(refused.Error(), "can't set") {
		t.Fatalf("mbox allows what is no Compose file: %v\n%s", refused, text)
	}
	return true
}

// unlike lists the lines that only one of two texts has.
func unlike(got, want string) string {
	var out strings.Builder
	for line := range strings.Lines(got) {
		if !strings.Contains(want, line) {
			out.WriteString("+" + line)
		}
	}
	for line := range strings.Lines(want) {
		if !strings.Contains(got, line) {
			out.WriteString("-" + line)
		}
	}
	return out.String()
}

func TestComposeMeansTheSame(t *testing.T) {
	if text := strings.Replace(goodCompose, "version: \"3.8\"\n", "", 1); !readsAsElsewhere(t, text) {
		t.Fatal("refused")
	}
	allowed := 0
	rapid.Check(t, func(t *rapid.T) {
		fields := rapid.SliceOfNDistinct(rapid.SampledFrom(composeLines), 0, 5, func(line string) string {
			name, _, _ := strings.Cut(line, ":")
			return name
		}).Draw(t, "fields")
		text := serviceWith("init: true\n"+strings.Join(fields, "\n")) + "  db: {image: redis}\n" + composeRest
		if readsAsElsewhere(t, text) {
			allowed++
		}
	})
	for _, line := range composeLines {
		t.Run(line, func(t *testing.T) {
			text := serviceWith(line) + "  db: {image: redis}\n" + composeRest
			if !readsAsElsewhere(t, text) {
				t.Errorf("refused: %v", validate(text))
			}
		})
	}
	if allowed == 0 {
		t.Error("no file was allowed")
	}
}

const composeRest = "networks: {front: {driver: bridge}, back: }\nvolumes: {data: }\nx-other: {a: 1}\n"

// composeLines are the forms that fields may have.
var composeLines = []string{
	"attach: false", "cap_drop: [ALL, NET_RAW]", "container_name: one", "cpu_shares: 512", "cpus: 0.5", "cpus: '0.25'",
	"command: echo a 'b c'", "command: [echo, 'a b', '5']", "command: 'echo $$HOME'", "entrypoint: /bin/true", "entrypoint: [a]",
	"build: ./a", "build: {context: a, target: x, no_cache: true}", "build: {context: a, args: [A=1, 'B=c=d']}", "build: {context: a, args: {A: 1, B: true}}",
	"build: {context: ./a, dockerfile_inline: 'FROM x'}", "build: {context: ./a, dockerfile: sub/Dockerfile, pull: true}",
	"depends_on: [db]", "depends_on: {db: {condition: service_healthy}}", "depends_on: {db: {condition: service_started, restart: true, required: false}}",
	"deploy: {replicas: 3}", "deploy: {mode: replicated, replicas: 0, restart_policy: {condition: any, delay: 5s}}",
	"deploy: {resources: {limits: {cpus: '0.5', memory: 64M, pids: 10}, reservations: {memory: 1m}}}",
	"domainname: a.b", "environment: [A=1, B=, 'C=d=e']", "environment: {A: 1, B: 1.5, C: true, D: 'no', E: ''}", "environment: {A: 1_000, B: 0x10, C: 012, D: 1e3}",
	"expose: [80, '81', 90-91]", "healthcheck: {test: curl x, interval: 1m30s, timeout: 5s, retries: 3}", "healthcheck: {disable: true}",
	"healthcheck: {test: [CMD-SHELL, 'a b'], start_period: 1s, start_interval: 500ms}", "hostname: h", "ipc: none", "ipc: private",
	"logging: {driver: none}", "logging: {driver: json-file, options: {max-size: 1m, max-file: 3}}",
	"mem_limit: 64m", "mem_limit: 1000000000", "mem_reservation: 1gb", "memswap_limit: 1g", "network_mode: none", "pids_limit: 100",
	"networks: [front, back]", "networks: {front: , back: {aliases: [a, b]}}", "platform: linux/amd64",
	"ports: ['127.0.0.1:80:80', '127.0.0.1::81', '127.0.0.1:8000-8002:90-92/udp', '127.0.0.1:9000-9010:7']",
	"ports: ['[::1]:80:80/tcp', {host_ip: 127.0.0.1, target: 5, published: 6, protocol: tcp, name: x}]",
	"ports: [{host_ip: '127.0.0.1', target: 5, published: '7-9', mode: ingress, app_protocol: http}]",
	"pull_policy: always", "read_only: true", "restart: no", "restart: 'on-failure:3'", "security_opt: [no-new-privileges]",
	"shm_size: 64m", "stdin_open: true", "stop_grace_period: 1m", "stop_signal: SIGINT", "tmpfs: /run", "tmpfs: ['/run:size=1m', /tmp]",
	"tty: true", "ulimits: {nofile: 5, nproc: {soft: 1, hard: 2}}", "user: '1000'", "user: '1000:5'", "working_dir: /x",
	"volumes: [/anonymous, 'data:/data', './a:/x', './b:/y:ro', 'data:/z:ro,nocopy', './c:/w:rw']",
	"volumes: [{type: bind, source: ./a, target: /x, read_only: true}, {type: tmpfs, target: /t, tmpfs: {size: 100, mode: 448}}]",
	"volumes: [{type: volume, source: data, target: /x, volume: {nocopy: true, subpath: a}}, {type: volume, target: /y}]",
	"volumes: [{type: bind, source: ./a, target: /x, bind: {create_host_path: false}}]",
}

func TestComposeTextIsStable(t *testing.T) {
	p, err := loadCompose(goodCompose)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		first, err := p.text()
		again, err2 := p.text()
		if err != nil || err2 != nil || string(first) != string(again) {
			t.Fatal(fmt.Sprint(err, err2), string(first), string(again))
		}
	}
}
