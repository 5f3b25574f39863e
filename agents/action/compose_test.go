package action

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/schemas"
)

// goodCompose uses everything that may be used.
const goodCompose = `
version: "3.8"
name: ignored
x-common: &common
  restart: unless-stopped
services:
  web:
    <<: *common
    image: nginx:1.27
    command: ["sh", "-c", "echo $$HOME"]
    environment: {A: "1", B: two}
    ports: ["127.0.0.1:8080:80", "[::1]:8081:81/tcp"]
    expose: ["80"]
    volumes:
      - data:/data
      - ./html:/usr/share/nginx/html:ro
      - type: tmpfs
        target: /tmp
    networks: {front: {aliases: [www]}}
    healthcheck: {test: ["CMD", "true"], interval: 5s}
    depends_on: [db]
    security_opt: ["no-new-privileges:true"]
    cap_drop: [ALL]
    read_only: true
    user: "1000:1000"
    logging: {driver: local, options: {max-size: 1m}}
    deploy:
      replicas: 2
      resources:
        limits: {cpus: "0.25", memory: 256M}
        reservations: {memory: 64M}
  db:
    build: {context: ./db, dockerfile: Dockerfile.txt, args: {V: "1"}}
    network_mode: none
networks: {front: {driver: bridge, internal: true}}
volumes: {data: {driver: local}}
`

// service is a file with one service of these fields.
func serviceWith(fields string) string {
	return "services:\n  web:\n    image: nginx\n" + indent(fields, "    ")
}

func indent(text, by string) string {
	return by + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n"+by) + "\n"
}

func validate(text string) error {
	d := &DeployCompose{Compose: text}
	return d.Validate(Limits{})
}

func TestComposeValid(t *testing.T) {
	if err := validate(goodCompose); err != nil {
		t.Error(err)
	}
	if err := (&DeployCompose{Template: goodCompose}).Validate(Limits{}); err != nil {
		t.Error(err)
	}
	for _, more := range []string{
		serviceWith("volumes: ['./a:/x:ro', './b:/y']") + "  other: {image: x, volumes: ['./a:/y:ro']}",
		"services: {web: {image: ghcr.io/owner/na-me:1.2_x}, db: {image: 'docker.io/library/redis:7@sha256:" + strings.Repeat("0a", 32) + "'}}",
	} {
		if err := validate(more); err != nil {
			t.Errorf("%v\n%s", err, more)
		}
	}
	project, err := loadCompose(goodCompose)
	if err != nil {
		t.Fatal(err)
	}
	again, err := project.text()
	if err != nil {
		t.Fatal(err)
	}
	if err := validate(string(again)); err != nil {
		t.Errorf("what would be run is refused: %v\n%s", err, again)
	}
	if !strings.Contains(string(again), "echo $$HOME") || strings.Contains(string(again), "ignored") {
		t.Errorf("%s", again)
	}
}

// Each way out of a container has a line here.
func TestComposeRefuses(t *testing.T) {
	for _, c := range []struct{ text, piece string }{
		{"services: [", "is no Compose file"},
		{"services: {}", "has no services"},
		{"a", "is no Compose file"},
		{"networks: {a: {}}", "no services"},
		{"services: {web: {imagee: x}}", "services.web.imagee is not allowed"},
		{"services: {web: {image: x, 5: y}}", "is no"},
		{"services: {web: nginx}", "services.web is no object"},
		{"services: {'a b': {image: x}}", "has \"a b\" for a name"},
		{serviceWith("healthcheck: {tset: [CMD]}"), "healthcheck.tset is not allowed"},
		{serviceWith("depends_on: {web2: {condition: x, on: y}}"), "depends_on.web2.on is not allowed"},
		{serviceWith("deploy: {5: x, placement: {constraints: [x]}}"), "services.web.deploy has a key that is no text"},
		{serviceWith("build: {context: a, network: host, true: x}"), "services.web.build has a key that is no text"},
		{serviceWith("volumes: [{type: bind, source: ./a, target: /x, 1: x, bind: {propagation: shared}}]"), "has a key that is no text"},
		{"services: {web: {image: x}, 5: {image: y}}", "has a key that is no text"},
		{serviceWith("user: 5"), "has a user of another kind"},
		{serviceWith("command: [a, 5]"), "has a command of another kind"},
		{serviceWith("user: [a]"), "has a user of another kind"},
		{serviceWith("command: [[a]]"), "has a command of another kind"},
		{serviceWith("read_only: {a: b}"), "has a read_only of another kind"},
		{serviceWith("network_mode: none\nnetworks: [n]") + "networks: {n: {}}", "has both network_mode and networks"},
		{serviceWith("networks: [n]"), "has the network \"n\", which is not defined"},
		{serviceWith("volumes: [{type: volume, source: /etc, target: /x}]"), "has the volume \"/etc\", which is not defined"},
		{serviceWith("volumes: [{type: volume, source: /etc, target: /x}]") + "volumes: {/etc: {}}", "has \"/etc\" for a name"},
		{serviceWith("volumes: ['./a:/x:ro,z']"), "the option \"z\" is not allowed"},
		{serviceWith("volumes: ['./a:/x:ro:rw']"), "is no mount"},
		{serviceWith("volumes: [{type: bind, source: ./a, target: /x, bind: {selinux: z}}]"), "volumes[0].bind is not allowed"},
		{serviceWith("ports: ['127.0.0.1:x:80']"), "ports:"},
		{serviceWith("ports: ['127.0.0.1:1-3:80-81']"), "ports:"},
		{serviceWith("environment: [{A: b}]"), "is no Compose file"},
		{"services: {web: {command: x}}", "neither an image nor a build"},
		{"services: {web: {image: a, depends_on: [none]}}", "is no Compose file"},
		{"services: {web: {image: a, image: b}}", "is no Compose file"},
		{"services: &a [*a]", "levels deep"},
		{"include: [other.yaml]\n" + serviceWith(""), "include is not allowed"},
		{"include: [https://example.com/x.git]\n" + serviceWith(""), "include is not allowed"},
		{"secrets: {s: {file: /etc/canary}}\n" + serviceWith(""), "secrets is not allowed"},
		{"secrets: {s: {environment: HOME}}\n" + serviceWith(""), "secrets is not allowed"},
		{"configs: {s: {file: /etc/canary}}\n" + serviceWith(""), "configs is not allowed"},
		{"models: {m: {model: x}}\n" + serviceWith(""), "models is not allowed"},
		{serviceWith("extends: {file: other.yaml, service: web}"), "services.web.extends is not allowed"},
		{serviceWith("extends: web2") + "  web2: {image: x}", "services.web.extends is not allowed"},
		{serviceWith("env_file: .env"), "env_file is not allowed"},
		{serviceWith("label_file: labels"), "label_file is not allowed"},
		{serviceWith("privileged: true"), `has "privileged:"`},
		{serviceWith("privileged: false"), `has "privileged:"`},
		{serviceWith("privileged : true"), "privileged is not allowed"},
		{serviceWith(`"privileged" : "true"`), "privileged is not allowed"},
		{serviceWith(`"\x70rivileged": true`), "privileged is not allowed"},
		{serviceWith("cap_add: [SYS_ADMIN]"), `has "cap_add"`},
		{serviceWith(`"cap\x5fadd": [SYS_ADMIN]`), "cap_add is not allowed"},
		{serviceWith("# NET_ADMIN"), `has "NET_ADMIN"`},
		{serviceWith("devices: [/dev/kvm]"), `has "devices:"`},
		{serviceWith(`"d\x65vices" : [/dev/kvm]`), "devices is not allowed"},
		{serviceWith("device_cgroup_rules: ['c 1:3 mr']"), "device_cgroup_rules is not allowed"},
		{serviceWith("gpus: all"), "gpus is not allowed"},
		{serviceWith("runtime: host"), "runtime is not allowed"},
		{serviceWith("runtime: runc"), "runtime is not allowed"},
		{serviceWith("network_mode: host"), "network_mode is not allowed"},
		{serviceWith("network_mode: 'container:other'"), "network_mode is not allowed"},
		{serviceWith("network_mode: bridge"), "network_mode is not allowed"},
		{serviceWith("logging: {options: {syslog-address: 'unixgram:///dev/log'}}"), "logging.driver is not allowed"},
		{serviceWith("build: {context: a, dockerfile: 'https://example.com/Dockerfile'}"), "build.dockerfile is not below"},
		{serviceWith("environment: ['=x']"), "or no name"},
		{serviceWith("network_mode: 'service:web'"), "is"},
		{serviceWith("pid: host"), "pid is not allowed"},
		{serviceWith("ipc: host"), "ipc is not allowed"},
		{serviceWith("ipc: 'container:x'"), "ipc is not allowed"},
		{serviceWith("ipc: shareable"), "ipc is not allowed"},
		{serviceWith("userns_mode: host"), "userns_mode is not allowed"},
		{serviceWith("uts: host"), "uts is not allowed"},
		{serviceWith("cgroup: host"), "cgroup is not allowed"},
		{serviceWith("cgroup_parent: /x"), "cgroup_parent is not allowed"},
		{serviceWith("security_opt: ['seccomp:unconfined']"), "security_opt is not allowed"},
		{serviceWith("security_opt: ['apparmor=unconfined']"), "security_opt is not allowed"},
		{serviceWith("security_opt: ['label:disable']"), "security_opt is not allowed"},
		{serviceWith("sysctls: {net.ipv4.ip_forward: 1}"), "sysctls is not allowed"},
		{serviceWith("use_api_socket: true"), "use_api_socket is not allowed"},
		{serviceWith("volumes_from: [other]"), "volumes_from is not allowed"},
		{serviceWith("provider: {type: sh}"), "provider is not allowed"},
		{serviceWith("post_start: [{command: x}]"), "post_start is not allowed"},
		{serviceWith("develop: {watch: []}"), "develop is not allowed"},
		{serviceWith("profiles: [x]"), "profiles is not allowed"},
		{serviceWith("x-anything: 1"), "x-anything is not allowed"},
		{serviceWith("extra_hosts: ['a:host-gateway']"), "extra_hosts is not allowed"},
		{serviceWith("oom_score_adj: -1000"), "oom_score_adj is not allowed"},
		{serviceWith("storage_opt: {size: 1T}"), "storage_opt is not allowed"},
		{serviceWith("logging: {driver: syslog}"), "logging.driver is not allowed"},
		{serviceWith("deploy: {placement: {constraints: [x]}}"), "deploy.placement is not allowed"},
		{serviceWith("deploy: {resources: {reservations: {generic_resources: []}}}"), ""},
		{serviceWith("deploy: {resources: {reservations: {'devices' : [{capabilities: [gpu]}]}}}"), "devices is not allowed"},
		{serviceWith("volumes: ['/:/host']"), "volumes[0].source is no folder of"},
		{serviceWith("volumes: ['/etc/canary:/x:ro']"), "volumes[0].source is no folder of"},
		{serviceWith("volumes: ['../x:/x']"), "volumes[0].source is no folder of"},
		{serviceWith("volumes: ['./a/../../x:/x']"), "volumes[0].source is no folder of"},
		{serviceWith("volumes: ['~/.ssh:/x']"), "volumes[0].source is no folder of"},
		{serviceWith("volumes: ['/run/docker.sock:/x']"), "volumes[0].source is no folder of"},
		{serviceWith("volumes: ['/var/run/../run/docker.sock:/x']"), "volumes[0].source is no folder of"},
		{serviceWith("volumes: [{type: bind, source: /, target: /x}]"), "volumes[0].source is no folder of"},
		{serviceWith("volumes: [{type: bind, source: ./a, target: /x, bind: {propagation: shared}}]"), "volumes[0].bind is not allowed"},
		{serviceWith("volumes: [{type: npipe, source: a, target: /x}]"), "volumes[0].type is not allowed"},
		{serviceWith("volumes: [{type: cluster, source: a, target: /x}]"), "volumes[0].type is not allowed"},
		{serviceWith("volumes: [{type: image, source: a, target: /x}]"), "volumes[0]."},
		{serviceWith("volumes: ['data:/x']") + "volumes: {data: {driver_opts: {type: none, o: bind, device: /}}}", "volumes.data.driver_opts is not allowed"},
		{serviceWith("volumes: ['data:/x']") + "volumes: {data: {external: true}}", "volumes.data.external is not allowed"},
		{serviceWith("volumes: ['data:/x']") + "volumes: {data: {name: other}}", "volumes.data.name is not allowed"},
		{serviceWith("volumes: ['data:/x']") + "volumes: {data: {driver: nfs}}", "volumes.data.driver is not allowed"},
		{serviceWith("volumes: ['data:/x']"), "is no Compose file"},
		{serviceWith("networks: [n]") + "networks: {n: {external: true}}", "networks.n.external is not allowed"},
		{serviceWith("networks: [n]") + "networks: {n: {external: {name: x}}}", "is not allowed"},
		{serviceWith("networks: [n]") + "networks: {n: {driver: host}}", "networks.n.driver is not allowed"},
		{serviceWith("networks: [n]") + "networks: {n: {driver: macvlan}}", "networks.n.driver is not allowed"},
		{serviceWith("networks: [n]") + "networks: {n: {driver_opts: {parent: eth0}}}", "networks.n.driver_opts is not allowed"},
		{serviceWith("networks: [n]") + "networks: {n: {name: host}}", "networks.n.name is not allowed"},
		{serviceWith("networks: {n: {ipv4_address: 10.0.0.2}}") + "networks: {n: {}}", "ipv4_address is not allowed"},
		{serviceWith("ports: ['80']"), "ports[0] is open to the network"},
		{serviceWith("ports: ['8080:80']"), "ports[0] is open to the network"},
		{serviceWith("ports: ['0.0.0.0:8080:80']"), "ports[0] is open to the network"},
		{serviceWith("ports: ['127.0.0.1:8080:80', '[::]:8080:80']"), "ports[1] is open to the network"},
		{serviceWith("ports: ['192.168.1.2:8080:80']"), "ports[0] is open to the network"},
		{serviceWith("ports: [{target: 80, published: '80'}]"), "ports[0] is open to the network"},
		{serviceWith("ports: [{target: 80, published: '80', host_ip: 127.0.0.1, mode: host}]"), "ports[0].mode"},
		{serviceWith("volumes: ['.:/x']"), "volumes[0].source is no folder of"},
		{serviceWith("volumes: ['./a/b:/x']"), "volumes[0].source is no folder of"},
		{serviceWith("volumes: ['./a:/x', './a/../b:/y']"), "volumes[1].source is no folder of"},
		{serviceWith("volumes: ['./.git:/x']"), "volumes[0].source is no folder of"},
		{serviceWith("volumes: ['./agents:/x', './tmp:/x/y']"), "volumes[1].target lies in or over"},
		{serviceWith("volumes: ['data:/x/y/', './tmp:/x/./']") + "volumes: {data: {}}", "volumes[1].target lies in or over"},
		{serviceWith("volumes: ['./a:/x']") + "  other: {image: x, volumes: ['./a:/y:ro']}", "services.other.volumes[0].source may be written by services.web"},
		{serviceWith("volumes: ['./a:/x:ro']") + "  other: {image: x, volumes: ['a:/z', './a:/y']}\nvolumes: {a: {}}", "services.web.volumes[0].source may be written by services.other"},
		{serviceWith("volumes: ['./a:/x']") + "  other: {image: x, volumes: ['./A:/y:ro']}", "services.other.volumes[0].source may be written by services.web"},
		{serviceWith("volumes: [{type: volume, target: /x, volume: {labels: {a: b}}}]"), "services.web.volumes[0].volume.labels is not allowed"},
		{serviceWith("volumes: ['./a:/x']") + "  other: {build: a}", "services.other.build.context may be written by services.web"},
		{serviceWith("scale: 1000"), "scale is not allowed"},
		{serviceWith("deploy: {replicas: 1000}"), "deploy.replicas is not allowed"},
		{serviceWith("labels: {traefik.enable: 'true'}"), "labels is not allowed"},
		{serviceWith("deploy: {labels: [a=b]}"), "labels is not allowed"},
		{serviceWith("build: {context: a, labels: [a=b]}"), "labels is not allowed"},
		{serviceWith("") + "networks: {n: {labels: [a=b]}}", "labels is not allowed"},
		{serviceWith("") + "volumes: {n: {labels: [a=b]}}", "labels is not allowed"},
		{"services: {web: {image: 127.0.0.1:5000/x}}", "image is of a registry that is not among registries"},
		{"services: {web: {image: 10.0.0.1/x}}", "image is of a registry that is not among registries"},
		{"services: {web: {image: 0x7f.1/x}}", "image is of a registry that is not among registries"},
		{"services: {web: {image: '[::1]:5000/x'}}", "image is of a registry that is not among registries"},
		{"services: {web: {image: localhost/x}}", "image is of a registry that is not among registries"},
		{"services: {web: {image: registry.example.com:5000/x}}", "image is of a registry that is not among registries"},
		{"services: {web: {image: registry.internal/x}}", "image is of a registry that is not among registries"},
		{"services: {web: {image: https://example.com/x}}", "image is"},
		{"services: {web: {image: 127.0.0.1.nip.io/x}}", "image is of a registry"},
		{"services: {web: {image: 7f000001.sslip.io/x}}", "image is of a registry"},
		{"services: {web: {image: localhost.localdomain/x}}", "image is of a registry"},
		{"services: {web: {image: ghcr.io:443/x}}", "image is of a registry"},
		{"services: {web: {image: ghcr.io./x}}", "image is of a registry"},
		{"services: {web: {image: ghcr.io.evil.example/x}}", "image is of a registry"},
		{"services: {web: {image: LOCALHOST/x}}", "image is of a registry"},
		{"services: {web: {image: ghcr.io/}}", "image is not allowed"},
		{"services: {web: {image: ghcr.io//x}}", "image is not allowed"},
		{serviceWith("build: ../x"), "build.context is no folder of"},
		{serviceWith("build: /"), "build.context is no folder of"},
		{serviceWith("build: https://github.com/x/y.git"), "build.context is no folder of"},
		{serviceWith("build: github.com/x/y"), "build.context is no folder of"},
		{serviceWith("build: ."), "build.context is no folder of"},
		{serviceWith("build: a/b"), "build.context is no folder of"},
		{serviceWith("build: git@github.com/x/y"), "build.context is no folder of"},
		{serviceWith("build: {context: a, dockerfile: ../x}"), "build.dockerfile is not below"},
		{serviceWith("build: {context: a, network: host}"), "build.network is not allowed"},
		{serviceWith("build: {context: a, ssh: [default]}"), "build.ssh is not allowed"},
		{serviceWith("build: {context: a, secrets: [x]}"), "build.secrets is not allowed"},
		{serviceWith("build: {context: a, additional_contexts: {a: /}}"), "build.additional_contexts is not allowed"},
		{serviceWith("build: {context: a, cache_to: ['type=local,dest=/x']}"), "build.cache_to is not allowed"},
		{serviceWith("build: {context: a, entitlements: [security.insecure]}"), "build.entitlements is not allowed"},
		{serviceWith("build: {context: a, args: [HOME]}"), "build.args.HOME has no value"},
		{serviceWith("environment: [HOME]"), "environment.HOME has no value"},
		{serviceWith("environment: {SECRET: }"), "environment.SECRET has no value"},
		{serviceWith("command: echo $HOME"), "command"},
		{serviceWith("command: 'echo ${HOME:-x}'"), "command"},
		{serviceWith("hostname: $$$HOME"), "has a variable"},
		{serviceWith(`command: "echo \x24{HOME}"`), "has a variable"},
		{serviceWith("environment: {$HOME: x}"), "has a variable"},
		{"services: {$HOME: {image: x}}", ""},
		{serviceWith("image2: x\n---\nservices: {web: {image: y}}"), ""},
		{serviceWith("") + "---\nservices: {web: {image: y}}", "more than one document"},
	} {
		err := validate(c.text)
		var e *schemas.Error
		if !errors.As(err, &e) || e.Path != "params.compose" || !strings.Contains(err.Error(), c.piece) {
			t.Errorf("%s\n%v, want %q", c.text, err, c.piece)
		}
	}
}

func TestComposeParameters(t *testing.T) {
	for params, want := range map[string][2]string{
		`{}`:                              {"params.compose", schemas.CodeMissingField},
		`{"compose":""}`:                  {"params.compose", schemas.CodeMissingField},
		`{"compose":"a","template":"b"}`:  {"params.template", schemas.CodeBadValue},
		`{"template":"a"}`:                {"params.template", schemas.CodeBadValue},
		`{"template":"privileged: true"}`: {"params.template", schemas.CodeBadValue},
	} {
		wantFault(t, params, parsed(t, "deploy_compose", params).Validate(Limits{}), want[0], want[1], "")
	}
	long := goodCompose + "#" + strings.Repeat("ä", 20000-len(goodCompose)-1)
	if err := validate(long); err != nil {
		t.Error(err)
	}
	wantFault(t, "long", validate(long+"ä"), "params.compose", schemas.CodeTooLong, "20001 characters")
}

// A file of a few lines that unfolds to billions does not get far.
func TestComposeBomb(t *testing.T) {
	var b strings.Builder
	b.WriteString("x-a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := range 9 {
		b.WriteString("x-a" + string(rune('1'+i)) + ": &a" + string(rune('1'+i)) + " [")
		b.WriteString(strings.TrimSuffix(strings.Repeat("*a"+string(rune('0'+i))+",", 10), ",") + "]\n")
	}
	if err := validate(b.String() + serviceWith("command: *a9")); err == nil {
		t.Error("a bomb is a valid file")
	}
	if err := validate("services:\n" + strings.Repeat("{", 9000)); err == nil {
		t.Error("a nest is a valid file")
	}
}

func FuzzCompose(f *testing.F) {
	f.Add(goodCompose)
	f.Add(serviceWith("volumes: ['/:/x']"))
	f.Fuzz(func(t *testing.T, text string) {
		var err error
		if cheap(t, text, func() { err = validate(text) }); err != nil {
			return
		}
		project, err := loadCompose(text)
		if err != nil {
			t.Fatal(err)
		}
		again, err := project.text()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := loadCompose(string(again)); err != nil {
			t.Fatalf("%q is allowed, and what would be run is not: %v\n%s", text, err, again)
		}
	})
}

func composeParams(t testing.TB, text string) string {
	t.Helper()
	quoted, err := jsontext.AppendQuote(nil, text)
	if err != nil {
		t.Fatal(err)
	}
	return `{"compose":` + string(quoted) + `}`
}
