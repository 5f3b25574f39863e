package action

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/docker/go-connections/nat"
	"go.yaml.in/yaml/v4"

	"mbox/schemas"
)

// composeProject is a Compose file that has been read, each field in its long form.
// What is checked has a name here; the rest is harmless whatever it says, and
// stands in Rest: see serviceFields.
type composeProject struct {
	Services map[string]composeService `yaml:"services"`
	Networks map[string]driven         `yaml:"networks,omitempty"`
	Volumes  map[string]driven         `yaml:"volumes,omitempty"`
}

// driven is a network or a volume.
type driven struct {
	Driver string         `yaml:"driver,omitempty"`
	Rest   map[string]any `yaml:",inline"`
}

type composeService struct {
	Image       string             `yaml:"image,omitempty"`
	Build       *composeBuild      `yaml:"build,omitempty"`
	NetworkMode string             `yaml:"network_mode,omitempty"`
	Ipc         string             `yaml:"ipc,omitempty"`
	SecurityOpt []string           `yaml:"security_opt,omitempty"`
	Logging     *driven            `yaml:"logging,omitempty"`
	Environment map[string]*string `yaml:"environment,omitempty"`
	Ports       []composePort      `yaml:"ports,omitempty"`
	Volumes     []composeMount     `yaml:"volumes,omitempty"`
	Networks    map[string]any     `yaml:"networks,omitempty"`
	DependsOn   map[string]any     `yaml:"depends_on,omitempty"`
	Deploy      *composeDeploy     `yaml:"deploy,omitempty"`
	Rest        map[string]any     `yaml:",inline"`
}

type composeBuild struct {
	Context    string             `yaml:"context"`
	Dockerfile string             `yaml:"dockerfile,omitempty"`
	Args       map[string]*string `yaml:"args,omitempty"`
	Rest       map[string]any     `yaml:",inline"`
}

type composeDeploy struct {
	Replicas *int           `yaml:"replicas,omitempty"`
	Rest     map[string]any `yaml:",inline"`
}

type composePort struct {
	HostIP    string         `yaml:"host_ip,omitempty"`
	Published string         `yaml:"published,omitempty"`
	Target    int            `yaml:"target"`
	Protocol  string         `yaml:"protocol,omitempty"`
	Mode      string         `yaml:"mode,omitempty"`
	Rest      map[string]any `yaml:",inline"`
}

type composeMount struct {
	Type     string         `yaml:"type"`
	Source   string         `yaml:"source,omitempty"`
	Target   string         `yaml:"target"`
	ReadOnly bool           `yaml:"read_only,omitempty"`
	Bind     *bindOptions   `yaml:"bind,omitempty"`
	Rest     map[string]any `yaml:",inline"`
}

type bindOptions struct {
	Propagation string         `yaml:"propagation,omitempty"`
	SELinux     string         `yaml:"selinux,omitempty"`
	Rest        map[string]any `yaml:",inline"`
}

const (
	bindMount   = "bind"
	volumeMount = "volume"
	tmpfsMount  = "tmpfs"
)

// ServiceNames are sorted.
func (p *composeProject) ServiceNames() []string { return slices.Sorted(maps.Keys(p.Services)) }

// text is the file as docker gets it.
func (p *composeProject) text() ([]byte, error) {
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	err := e.Encode(p)
	return out.Bytes(), errors.Join(err, e.Close())
}

// readModel reads a file of one document into maps and lists, with every field
// that has a short form in its long one.
func readModel(text string) (map[string]any, error) {
	var model map[string]any
	if err := yaml.Unmarshal([]byte(text), &model); err != nil {
		return nil, err
	}
	maps.DeleteFunc(model, func(key string, _ any) bool {
		return key == "name" || key == "version" || strings.HasPrefix(key, "x-")
	})
	ports := uint64(0)
	for _, name := range sorted(model["services"]) {
		s, ok := model["services"].(map[string]any)[name].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("services.%s is no object", name)
		}
		if err := unfold(s, &ports); err != nil {
			return nil, fmt.Errorf("services.%s.%w", name, err)
		}
	}
	return model, nil
}

// unfold puts the long form of a service's fields in place of the short one.
func unfold(s map[string]any, ports *uint64) (err error) {
	if context, short := s["build"].(string); short {
		s["build"] = map[string]any{"context": context}
	}
	if b, ok := s["build"].(map[string]any); ok {
		b["args"] = pairs(b["args"])
	}
	s["environment"] = pairs(s["environment"])
	s["networks"] = unlisted(s["networks"], func(name string) (string, any) { return name, nil })
	s["depends_on"] = unlisted(s["depends_on"], func(name string) (string, any) {
		return name, map[string]any{"condition": "service_started", "required": true}
	})
	if s["ports"], err = unfoldPorts(s["ports"], ports); err != nil {
		return fmt.Errorf("ports: %w", err)
	}
	if s["volumes"], err = unfoldMounts(s["volumes"]); err != nil {
		return fmt.Errorf("volumes: %w", err)
	}
	maps.DeleteFunc(s, func(_ string, v any) bool { return v == nil })
	return nil
}

// pairs makes an object of a list of NAME=VALUE; without = there is no value.
func pairs(v any) any {
	return unlisted(v, func(pair string) (string, any) {
		name, value, has := strings.Cut(pair, "=")
		if !has {
			return name, nil
		}
		return name, value
	})
}

// unlisted makes an object of a list of texts. All else stays as it is.
func unlisted(v any, entry func(text string) (key string, value any)) any {
	list, ok := v.([]any)
	if !ok {
		return v
	}
	out := map[string]any{}
	for _, part := range list {
		text, ok := part.(string)
		if !ok {
			return v
		}
		key, value := entry(text)
		out[key] = value
	}
	return out
}

// unfoldPorts makes an entry of each port. Wide ranges are refused before: a line
// of a few bytes would take gigabytes.
func unfoldPorts(v any, ports *uint64) (any, error) {
	list, ok := v.([]any)
	if !ok {
		return v, nil
	}
	var out []any
	for _, entry := range list {
		short := fmt.Sprint(entry)
		long, isLong := entry.(map[string]any)
		if isLong {
			short = fmt.Sprint(long["published"])
		}
		if *ports += rangeOf(short); *ports > maxPorts {
			return nil, fmt.Errorf("has more than %d ports", maxPorts)
		}
		if isLong {
			out = append(out, long)
			continue
		}
		all, err := nat.ParsePortSpec(short)
		if err != nil {
			return nil, err
		}
		for _, p := range all {
			out = append(out, map[string]any{
				"host_ip": p.Binding.HostIP, "published": p.Binding.HostPort, "target": p.Port.Int(),
				"protocol": p.Port.Proto(), "mode": "ingress",
			})
		}
	}
	return out, nil
}

func unfoldMounts(v any) (any, error) {
	list, ok := v.([]any)
	if !ok {
		return v, nil
	}
	out := make([]any, len(list))
	for i, entry := range list {
		out[i] = entry
		if short, ok := entry.(string); ok {
			m, err := unfoldMount(short)
			if err != nil {
				return nil, err
			}
			out[i] = m
		}
	}
	return out, nil
}

// unfoldMount reads [SOURCE:]TARGET[:OPTIONS].
func unfoldMount(short string) (map[string]any, error) {
	parts := strings.Split(short, ":")
	if slices.Contains(parts, "") || len(parts) > 3 {
		return nil, fmt.Errorf("%s is no mount: want SOURCE:TARGET or SOURCE:TARGET:ro", schemas.Quote(short))
	}
	if len(parts) == 1 {
		return map[string]any{"type": volumeMount, "target": short}, nil
	}
	m := map[string]any{"type": volumeMount, "source": parts[0], "target": parts[1]}
	if strings.ContainsAny(short[:1], "./~") {
		m["type"], m["bind"] = bindMount, map[string]any{"create_host_path": true}
	}
	if len(parts) < 3 {
		return m, nil
	}
	for option := range strings.SplitSeq(parts[2], ",") {
		switch option {
		case "ro", "rw":
			m["read_only"] = option == "ro"
		case "nocopy":
			m["volume"] = map[string]any{"nocopy": true}
		default:
			return nil, fmt.Errorf("the option %s is not allowed: want ro, rw or nocopy", schemas.Quote(option))
		}
	}
	return m, nil
}

// asProject reads the model once more, into the types of what is checked.
func asProject(model map[string]any) (*composeProject, error) {
	text, err := yaml.Marshal(model)
	if err != nil {
		return nil, err
	}
	p := new(composeProject)
	return p, yaml.Unmarshal(text, p)
}

var composeName = schemas.Pattern(`^[a-zA-Z0-9._-]+$`)

// checkLinks wants all that services name to be in the file, by a name that can be
// nothing else, and each field of the rest to be of the kind that Compose asks for.
func (p *composeProject) checkLinks() error {
	for kind, names := range map[string][]string{"networks": slices.Collect(maps.Keys(p.Networks)), "services": p.ServiceNames(), "volumes": slices.Collect(maps.Keys(p.Volumes))} {
		for _, name := range names {
			if !composeName().MatchString(name) {
				return fmt.Errorf("%s has %s for a name", kind, schemas.Quote(name))
			}
		}
	}
	for _, name := range p.ServiceNames() {
		if err := p.Services[name].checkLinks(p); err != nil {
			return fmt.Errorf("services.%s %w", name, err)
		}
	}
	return nil
}

func (s composeService) checkLinks(p *composeProject) error {
	if s.Image == "" && s.Build == nil {
		return errors.New("has neither an image nor a build context")
	}
	if s.NetworkMode != "" && len(s.Networks) > 0 {
		return errors.New("has both network_mode and networks")
	}
	for name := range s.Networks {
		if _, ok := p.Networks[name]; !ok {
			return fmt.Errorf("has the network %s, which is not defined", schemas.Quote(name))
		}
	}
	for name := range s.DependsOn {
		if _, ok := p.Services[name]; !ok {
			return fmt.Errorf("depends on %s, which is not defined", schemas.Quote(name))
		}
	}
	for _, v := range s.Volumes {
		if _, ok := p.Volumes[v.Source]; v.Type == volumeMount && v.Source != "" && !ok {
			return fmt.Errorf("has the volume %s, which is not defined", schemas.Quote(v.Source))
		}
	}
	return s.checkKinds()
}

// checkKinds tells a field of the rest that is of another kind than Compose wants.
func (s composeService) checkKinds() error {
	for _, field := range slices.Sorted(maps.Keys(s.Rest)) {
		if want := cmp.Or(kindsOf[field], "text number"); !strings.Contains(want, kindOfValue(s.Rest[field])) {
			return fmt.Errorf("has a %s of another kind than Compose wants: %s", field, want)
		}
	}
	return nil
}

// kindsOf are the kinds that a field may have, where it is not text or number (a
// boolean counts as one).
var kindsOf = map[string]string{
	"cap_drop": "texts", "command": "text texts", "container_name": "text", "domainname": "text",
	"entrypoint": "text texts", "expose": "texts numbers", "healthcheck": "object", "hostname": "text",
	"platform": "text", "pull_policy": "text", "restart": "text", "stop_grace_period": "text",
	"stop_signal": "text", "tmpfs": "text texts", "ulimits": "object", "user": "text", "working_dir": "text",
}

func kindOfValue(v any) string {
	switch v := v.(type) {
	case string:
		return "text"
	case map[string]any:
		return "object"
	case []any:
		kind := "texts"
		for _, part := range v {
			switch kindOfValue(part) {
			case "text":
			case "number":
				kind = "numbers"
			default:
				return "list of lists"
			}
		}
		return kind
	}
	return "number"
}
