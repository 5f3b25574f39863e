package action

import (
	"cmp"
	"fmt"
	"net/netip"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"mbox/schemas"
)

// checkProject checks the values of the fields that may be there.
func checkProject(project *composeProject) error {
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
	return checkShared(project)
}

// checkShared lets no service write what another one mounts or is built from: the
// two would be one, and the first could change what the second runs.
func checkShared(project *composeProject) error {
	writes := map[string]string{} // folders, and which service writes them
	for _, name := range project.ServiceNames() {
		for _, v := range project.Services[name].Volumes {
			if v.Type == bindMount && !v.ReadOnly {
				writes[sameFolder(v.Source)] = name
			}
		}
	}
	for _, name := range project.ServiceNames() {
		s := project.Services[name]
		for i, v := range s.Volumes {
			if by := writes[sameFolder(v.Source)]; v.Type == bindMount && by != "" && by != name {
				return fmt.Errorf("services.%s.volumes[%d].source may be written by services.%s", name, i, by)
			}
		}
		if s.Build == nil {
			continue
		}
		if by := writes[sameFolder(s.Build.Context)]; by != "" {
			return fmt.Errorf("services.%s.build.context may be written by services.%s", name, by)
		}
	}
	return nil
}

// sameFolder is a name that two folders share which are one on some disk.
func sameFolder(path string) string { return strings.ToLower(filepath.Clean(path)) }

// A choice is a field of which only some values are harmless.
type choice struct {
	field, value string
	allowed      []string
}

func checkService(s composeService) error {
	for _, c := range []choice{
		{"network_mode", s.NetworkMode, []string{"none"}}, // on bridge are other people's containers
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
	// Without a driver the options are for the engine's own, which may send them away.
	if s.Logging != nil && !slices.Contains([]string{"json-file", "local", "none"}, s.Logging.Driver) {
		return fmt.Errorf("logging.driver is not allowed: want one of json-file, local, none")
	}
	for _, check := range []func(composeService) error{checkImage, checkCopies, checkEnvironment, checkBuild, checkMounts, checkPorts} {
		if err := check(s); err != nil {
			return err
		}
	}
	return nil
}

// checkEnvironment refuses variables without a value: they take one from whoever
// runs the file.
func checkEnvironment(s composeService) error {
	for name, value := range s.Environment {
		if value == nil || name == "" {
			return fmt.Errorf("environment.%s has no value, or no name", name)
		}
	}
	return nil
}

func checkBuild(s composeService) error {
	if s.Build == nil {
		return nil
	}
	if !isFolder(s.Build.Context) {
		return fmt.Errorf("build.context is no folder of the workspace: %s", wantFolder)
	}
	if s.Build.Dockerfile != "" && (!filepath.IsLocal(s.Build.Dockerfile) || strings.Contains(s.Build.Dockerfile, ":")) {
		return fmt.Errorf("build.dockerfile is not below its context")
	}
	for name, value := range s.Build.Args {
		if value == nil {
			return fmt.Errorf("build.args.%s has no value", name)
		}
	}
	return nil
}

// folderForm is a folder that lies directly in the workspace. Two of them are the
// same or have nothing in common, and none is the address of a repository, which
// an engine takes out of a context such as github.com/a/b.
var folderForm = schemas.Pattern(`^(\./)?[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$`)

const wantFolder = "want such as ./data, which lies directly in the workspace"

func isFolder(path string) bool { return folderForm().MatchString(path) }

// checkMounts lets a service have volumes of its own and folders of the
// workspace; the engine's socket by its one name, for it may be allowed.
func checkMounts(s composeService) error {
	for i, v := range s.Volumes {
		switch {
		case v.Type == tmpfsMount, v.Type == volumeMount:
		case v.Type != bindMount:
			return fmt.Errorf("volumes[%d].type is not allowed: want volume, tmpfs or bind", i)
		case v.Source != dockerSock && !isFolder(v.Source):
			return fmt.Errorf("volumes[%d].source is no folder of the workspace: %s", i, wantFolder)
		}
		for _, other := range s.Volumes[:i] {
			if inside(v.Target, other.Target) || inside(other.Target, v.Target) {
				return fmt.Errorf("volumes[%d].target lies in or over that of another one", i)
			}
		}
		if v.Bind != nil && (v.Bind.Propagation != "" || v.Bind.SELinux != "") {
			return fmt.Errorf("volumes[%d].bind is not allowed", i)
		}
	}
	return nil
}

// inside tells whether a path in a container is a folder or lies in it.
func inside(target, folder string) bool {
	target, folder = path.Clean("/"+target), path.Clean("/"+folder)
	return target == folder || folder == "/" || strings.HasPrefix(target, folder+"/")
}

// DefaultRegistries are public registries. By any other name the engine could be had
// to ask this machine or its network: names lead to any address that their owner
// likes.
func DefaultRegistries() []string {
	return []string{"docker.io", "ghcr.io", "quay.io", "registry.gitlab.com", "registry.k8s.io", "gcr.io", "mcr.microsoft.com", "public.ecr.aws"}
}

var imageForm = schemas.Pattern(`^[a-z0-9]+([._/-]+[a-z0-9]+)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?$`)

func checkImage(s composeService) error {
	if s.Image != "" && !imageForm().MatchString(s.Image[len(registryOf(s.Image)):]) {
		return fmt.Errorf("image is not allowed: want such as nginx:1.27")
	}
	return nil
}

// registryOf is what comes before the image's own name, with the slash behind it;
// "" where the image is of Docker's registry, because it names none.
func registryOf(image string) string {
	registry, _, several := strings.Cut(image, "/")
	if several && (strings.ContainsAny(registry, ".:") || registry == "localhost" || strings.ToLower(registry) != registry) {
		return registry + "/"
	}
	return ""
}

// checkRegistries wants every image to come from a registry that is listed.
func checkRegistries(project *composeProject, allowed []string) error {
	if allowed == nil {
		allowed = DefaultRegistries()
	}
	for _, name := range project.ServiceNames() {
		image := project.Services[name].Image
		registry := cmp.Or(strings.TrimSuffix(registryOf(image), "/"), "docker.io")
		if image != "" && !slices.Contains(allowed, registry) {
			return fmt.Errorf("services.%s.image is of a registry that is not among registries in [actions.deploy_compose]: want one of %s", name, strings.Join(allowed, ", "))
		}
	}
	return nil
}

// maxCopies is how many containers a service may have.
const maxCopies = 10

func checkCopies(s composeService) error {
	if s.Deploy != nil && s.Deploy.Replicas != nil && (*s.Deploy.Replicas < 0 || *s.Deploy.Replicas > maxCopies) {
		return fmt.Errorf("deploy.replicas is not allowed: want at most %d", maxCopies)
	}
	return nil
}

// checkPorts lets ports be published on loopback only. An engine opens the others
// to the whole network, past the machine's firewall; who wants that puts a proxy
// in front, by hand.
func checkPorts(s composeService) error {
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
