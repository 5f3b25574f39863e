package action

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"
)

// checkProject checks the values of the fields that may be there.
func checkProject(project *types.Project) error {
	for name, n := range project.Networks {
		if n.Driver != "" && n.Driver != "bridge" {
			return fmt.Errorf("networks.%s.driver is not allowed: want bridge", name)
		}
	}
	for name, v := range project.Volumes {
		if v.Driver != "" && v.Driver != "local" {
			return fmt.Errorf("volumes.%s.driver is not allowed: want local", name)
		}
	}
	for _, name := range project.ServiceNames() {
		if err := checkService(project.Services[name]); err != nil {
			return fmt.Errorf("services.%s.%w", name, err)
		}
	}
	return nil
}

// A choice is a field of which only some values are harmless.
type choice struct {
	field, value string
	allowed      []string
}

func checkService(s types.ServiceConfig) error {
	for _, c := range []choice{
		{"network_mode", s.NetworkMode, []string{"none", "bridge"}},
		{"ipc", s.Ipc, []string{"private", "none"}},
	} {
		if c.value != "" && !slices.Contains(c.allowed, c.value) {
			return fmt.Errorf("%s is not allowed: want one of %s", c.field, strings.Join(c.allowed, ", "))
		}
	}
	for _, option := range s.SecurityOpt {
		if option != "no-new-privileges" && option != "no-new-privileges:true" && option != "no-new-privileges=true" {
			return fmt.Errorf("security_opt is not allowed: want no-new-privileges")
		}
	}
	if s.Logging != nil && !slices.Contains([]string{"", "json-file", "local", "none"}, s.Logging.Driver) {
		return fmt.Errorf("logging.driver is not allowed: want one of json-file, local, none")
	}
	for _, check := range []func(types.ServiceConfig) error{checkEnvironment, checkBuild, checkMounts, checkPorts} {
		if err := check(s); err != nil {
			return err
		}
	}
	return nil
}

// checkEnvironment refuses variables without a value: they take one from whoever
// runs the file.
func checkEnvironment(s types.ServiceConfig) error {
	for name, value := range s.Environment {
		if value == nil {
			return fmt.Errorf("environment.%s has no value", name)
		}
	}
	return nil
}

func checkBuild(s types.ServiceConfig) error {
	if s.Build == nil {
		return nil
	}
	if !inWorkspace(s.Build.Context) {
		return fmt.Errorf("build.context is not below the workspace")
	}
	if s.Build.Dockerfile != "" && !inWorkspace(s.Build.Dockerfile) {
		return fmt.Errorf("build.dockerfile is not below its context")
	}
	for name, value := range s.Build.Args {
		if value == nil {
			return fmt.Errorf("build.args.%s has no value", name)
		}
	}
	return nil
}

// inWorkspace tells whether a path is a folder of the workspace: relative, not
// home, no address of a repository.
func inWorkspace(path string) bool {
	return path != "" && filepath.IsLocal(path) && !strings.HasPrefix(path, "~") && !strings.ContainsAny(path, ":#@\\")
}

// checkMounts lets a service have volumes of its own and folders of the
// workspace; the engine's socket by its one name, for it may be allowed.
func checkMounts(s types.ServiceConfig) error {
	for i, v := range s.Volumes {
		switch {
		case v.Type == types.VolumeTypeTmpfs, v.Type == types.VolumeTypeVolume:
		case v.Type != types.VolumeTypeBind:
			return fmt.Errorf("volumes[%d].type is not allowed: want volume, tmpfs or bind", i)
		case v.Source != dockerSock && !inWorkspace(v.Source):
			return fmt.Errorf("volumes[%d].source is not below the workspace", i)
		}
		if v.Bind != nil && (v.Bind.Propagation != "" || v.Bind.SELinux != "") {
			return fmt.Errorf("volumes[%d].bind is not allowed", i)
		}
	}
	return nil
}

// checkPorts lets ports be published on loopback only. An engine opens the others
// to the whole network, past the machine's firewall; who wants that puts a proxy
// in front, by hand.
func checkPorts(s types.ServiceConfig) error {
	for i, p := range s.Ports {
		ip, err := netip.ParseAddr(p.HostIP)
		if err != nil || !ip.IsLoopback() {
			return fmt.Errorf(`ports[%d] is open to the network: want such as "127.0.0.1:8080:80"`, i)
		}
		if p.Mode != "" && p.Mode != "ingress" {
			return fmt.Errorf("ports[%d].mode is not allowed", i)
		}
	}
	return nil
}
