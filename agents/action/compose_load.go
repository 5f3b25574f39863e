package action

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// What may stand in a file. Compose has three hundred fields, of which every
// release adds some; one that reaches out of the container must not be let in by
// being forgotten, so the list is of those that do not. (labels do: by them other
// programs of the machine, such as a proxy, take orders.)
var (
	topFields     = []string{"services", "networks", "volumes"}
	serviceFields = []string{
		"attach", "build", "cap_drop", "command", "container_name", "cpu_shares", "cpus", "depends_on",
		"deploy", "domainname", "entrypoint", "environment", "expose", "healthcheck", "hostname", "image",
		"init", "ipc", "logging", "mem_limit", "mem_reservation", "memswap_limit", "network_mode",
		"networks", "pids_limit", "platform", "ports", "pull_policy", "read_only", "restart",
		"security_opt", "shm_size", "stdin_open", "stop_grace_period", "stop_signal", "tmpfs", "tty", "ulimits",
		"user", "volumes", "working_dir",
	}
	fieldsOf = map[string][]string{
		"bind":        {"create_host_path", "propagation", "recursive", "selinux"},
		"build":       {"args", "context", "dockerfile", "dockerfile_inline", "no_cache", "pull", "target"},
		"dependency":  {"condition", "required", "restart"},
		"deploy":      {"mode", "replicas", "resources", "restart_policy"},
		"resources":   {"limits", "reservations"},
		"healthcheck": {"disable", "interval", "retries", "start_interval", "start_period", "test", "timeout"},
		"limits":      {"cpus", "memory", "pids"},
		"logging":     {"driver", "options"},
		"own network": {"driver", "enable_ipv4", "enable_ipv6", "internal"},
		"own volume":  {"driver"},
		"network":     {"aliases"},
		"volume":      {"bind", "read_only", "source", "target", "tmpfs", "type", "volume"},
		"options":     {"nocopy", "subpath"},
		"port":        {"app_protocol", "host_ip", "mode", "name", "protocol", "published", "target"},
	}
)

// loadCompose reads a Compose file, and refuses it if it holds anything that is
// not known to be harmless. It reads no other file and no variable: what would
// (include, extends, env_file, $NAME) is refused.
//
// Compose's own reader links libraries that take 6 to 10 ms when any command of
// mbox starts, for this one action. So it is read here, and docker compose, which
// has that reader, gets nothing but what was read, written anew. The tests hold
// the one to the other.
func loadCompose(text string) (p *composeProject, err error) {
	defer func() {
		if v := recover(); v != nil { // of YAML's reader: the file is a model's
			p, err = nil, fmt.Errorf("is no Compose file: %v", v)
		}
	}()
	if err := checkSize(text); err != nil {
		return nil, err
	}
	model, err := readModel(text)
	if err != nil {
		return nil, fmt.Errorf("is no Compose file: %w", err)
	}
	if err := checkModel(model); err != nil {
		return nil, err
	}
	p, err = asProject(model)
	if err == nil {
		err = p.checkLinks()
	}
	if err != nil {
		return nil, fmt.Errorf("is no Compose file: %w", err)
	}
	return p, checkProject(p)
}

// maxPorts is how many ports the ranges of a file may have.
const maxPorts = 1000

// rangeOf is how many ports a text names, if it names a range of them; 0 if not.
func rangeOf(text string) (ports uint64) {
	for part := range strings.SplitSeq(text, ":") {
		part, _, _ = strings.Cut(part, "/")
		low, high, both := strings.Cut(part, "-")
		first, err := strconv.ParseUint(low, 10, 16)
		last, err2 := strconv.ParseUint(high, 10, 16)
		if both && err == nil && err2 == nil && last > first {
			ports = max(ports, last-first+1)
		}
	}
	return ports
}

// checkModel checks which fields there are, before anything is made of them.
func checkModel(model map[string]any) error {
	if err := only("", model, topFields); err != nil {
		return err
	}
	if err := checkStrings("", model); err != nil {
		return err
	}
	for _, name := range sorted(model["networks"]) {
		if err := only("networks."+name, fields(model, "networks", name), fieldsOf["own network"]); err != nil {
			return err
		}
	}
	for _, name := range sorted(model["volumes"]) {
		if err := only("volumes."+name, fields(model, "volumes", name), fieldsOf["own volume"]); err != nil {
			return err
		}
	}
	names := sorted(model["services"])
	if len(names) == 0 {
		return errors.New("has no services")
	}
	if err := checkDependencies(model); err != nil {
		return err
	}
	for _, name := range names {
		if err := checkServiceFields("services."+name, fields(model, "services", name)); err != nil {
			return err
		}
	}
	return nil
}

// maxCommandLine bounds what docker compose takes apart in time that grows with the
// square of its length.
const maxCommandLine = 4 << 10

func checkServiceFields(at string, s map[string]any) error {
	if err := only(at, s, serviceFields); err != nil {
		return err
	}
	for _, part := range []string{"command", "entrypoint"} {
		if line, _ := s[part].(string); len(line) > maxCommandLine {
			return fmt.Errorf("%s.%s has more than %d bytes: want a list", at, part, maxCommandLine)
		}
	}
	for _, part := range []string{"build", "deploy", "healthcheck", "logging"} {
		if err := only(at+"."+part, fields(s, part), fieldsOf[part]); err != nil {
			return err
		}
	}
	resources := fields(s, "deploy", "resources")
	if err := only(at+".deploy.resources", resources, fieldsOf["resources"]); err != nil {
		return err
	}
	for _, part := range fieldsOf["resources"] {
		if err := only(at+".deploy.resources."+part, fields(resources, part), fieldsOf["limits"]); err != nil {
			return err
		}
	}
	for _, name := range sorted(s["networks"]) {
		if err := only(at+".networks."+name, fields(s, "networks", name), fieldsOf["network"]); err != nil {
			return err
		}
	}
	for _, name := range sorted(s["depends_on"]) {
		if err := only(at+".depends_on."+name, fields(s, "depends_on", name), fieldsOf["dependency"]); err != nil {
			return err
		}
	}
	for list, each := range map[string]string{"volumes": "volume", "ports": "port"} {
		entries, _ := s[list].([]any)
		for i, entry := range entries {
			entry, _ := entry.(map[string]any)
			place := fmt.Sprintf("%s.%s[%d]", at, list, i)
			if err := only(place, entry, fieldsOf[each]); err != nil {
				return err
			}
			if err := only(place+".volume", fields(entry, "volume"), fieldsOf["options"]); err != nil {
				return err
			}
			if err := only(place+".bind", fields(entry, "bind"), fieldsOf["bind"]); err != nil {
				return err
			}
		}
	}
	return nil
}

// only refuses fields that are not listed.
func only(at string, of map[string]any, listed []string) error {
	for _, key := range slices.Sorted(maps.Keys(of)) {
		if !slices.Contains(listed, key) {
			return fmt.Errorf("%s is not allowed", strings.TrimPrefix(at+"."+key, "."))
		}
	}
	return nil
}

// fields is the object at a path of keys; empty where there is none.
func fields(of map[string]any, path ...string) map[string]any {
	for _, key := range path {
		of, _ = of[key].(map[string]any)
	}
	return of
}

func sorted(v any) []string {
	m, _ := v.(map[string]any)
	return slices.Sorted(maps.Keys(m))
}

// checkStrings refuses variables, which would be filled from the environment of
// whoever runs the file.
func checkStrings(at string, v any) error {
	switch v := v.(type) {
	case string:
		if strings.Contains(strings.ReplaceAll(v, "$$", ""), "$") {
			return fmt.Errorf("%s has a variable: write $$ for a dollar sign", at)
		}
	case []any:
		for i, part := range v {
			if err := checkStrings(fmt.Sprintf("%s[%d]", at, i), part); err != nil {
				return err
			}
		}
	case map[any]any:
		return fmt.Errorf("%s has a key that is no text", cmp.Or(at, "the file"))
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			place := strings.TrimPrefix(at+"."+key, ".")
			if err := checkStrings(place, key); err != nil {
				return err
			}
			if err := checkStrings(place, v[key]); err != nil {
				return err
			}
		}
	}
	return nil
}
