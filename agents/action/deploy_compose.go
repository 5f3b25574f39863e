package action

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"mbox/agents/policy"
	"mbox/schemas"
)

const (
	composeFile = "compose.mbox.yaml" // in the workspace: what was checked, and is run
	maxCompose  = 20_000              // characters
	dockerSock  = "/var/run/docker.sock"
)

// DeployCompose checks a Compose file, and starts it where the configuration and
// an approval allow that. The file stands in compose or in template, which are
// two names for the same.
type DeployCompose struct {
	Compose  string `json:"compose,omitzero" jsonschema:"maxLength=20000,description=a Compose file\\, in YAML"`
	Template string `json:"template,omitzero" jsonschema:"maxLength=20000,description=the same under another name"`

	project *composeProject // of the text, once it has been read
}

// Name is deploy_compose.
func (*DeployCompose) Name() string { return "deploy_compose" }

// text is the file, and the parameter that it stands in.
func (d *DeployCompose) text() (text, param string) {
	if d.Template != "" {
		return d.Template, "template"
	}
	return d.Compose, "compose"
}

// load reads the file, once.
func (d *DeployCompose) load() (*composeProject, error) {
	if d.project != nil {
		return d.project, nil
	}
	text, _ := d.text()
	project, err := loadCompose(text)
	if err == nil {
		d.project = project
	}
	return project, err
}

// bannedTexts may stand nowhere in a file, not in a comment either: a cheap look
// before the file is understood. The engine's socket is looked for later, for it
// may be allowed.
var bannedTexts = []string{"privileged:", "cap_add", "NET_ADMIN", "devices:"}

// Validate checks the file: that it is one, and that nothing in it reaches out of
// its containers. Only what is known to be harmless is allowed.
func (d *DeployCompose) Validate(l Limits) error {
	text, param := d.text()
	switch {
	case d.Compose != "" && d.Template != "":
		return fault("template", schemas.CodeBadValue, "stands beside compose", "one of the two")
	case text == "":
		return fault("compose", schemas.CodeMissingField, "is missing", "a Compose file")
	case utf8.RuneCountInString(text) > maxCompose:
		return fault(param, schemas.CodeTooLong, fmt.Sprintf("has %d characters", utf8.RuneCountInString(text)), fmt.Sprintf("at most %d", maxCompose))
	}
	for _, banned := range bannedTexts {
		if strings.Contains(text, banned) {
			return fault(param, schemas.CodeBadValue, "has "+schemas.Quote(banned), "a file without")
		}
	}
	project, err := d.load()
	if err == nil {
		err = checkRegistries(project, l.Registries)
	}
	if err != nil {
		return fault(param, schemas.CodeBadValue, schemas.Sentence(err.Error(), 300), "")
	}
	return nil
}

// Permit asks whether the agent may use the action, write the file, and use what
// the file mounts and builds.
func (d *DeployCompose) Permit(p *policy.Policy) error {
	if err := p.Tool(d.Name()); err != nil {
		return err
	}
	if _, err := p.Write(composeFile); err != nil {
		return err
	}
	project, err := d.load()
	if err != nil {
		return err
	}
	for _, path := range hostPaths(project) {
		ask := p.Write
		if path.readOnly {
			ask = p.Read
		}
		if _, err := ask(path.path); err != nil {
			return err
		}
	}
	return nil
}

// Do checks the file, and runs it only where the options say so and somebody has
// approved exactly this task: status validated, deployed or failed.
func (d *DeployCompose) Do(ctx context.Context, env *Env) (Result, error) {
	project, err := d.load()
	if err != nil {
		return Result{}, err
	}
	if mountsSocket(project) && !env.Compose.Socket {
		return Result{}, &policy.Denied{
			Rule: "compose_socket", What: dockerSock, Why: "who has the engine's socket has the machine",
			Hint: "socket in [actions.deploy_compose] would allow it",
		}
	}
	found := deployment{Project: projectName(env.Agent), Services: services(project)}
	switch {
	case !env.Compose.Run:
		found.DryRun = "run in [actions.deploy_compose] is not set"
	case !env.Approved:
		found.DryRun = "nobody has approved this task"
	}
	result := Result{Action: d.Name(), Status: "validated"}
	if found.DryRun == "" {
		result.Path = composeFile
		if result.Status, result.Error, err = found.run(ctx, env, project); err != nil {
			return Result{}, err
		}
	}
	result.Output, err = output(found)
	return result, err
}

// deployment is what deploy_compose tells.
type deployment struct {
	Project  string    `json:"project"`
	DryRun   string    `json:"dry_run,omitzero"` // why nothing was started
	Services []service `json:"services"`
	Log      string    `json:"log,omitzero"` // the end of what docker said
}

type service struct {
	Name   string   `json:"name"`
	Image  string   `json:"image,omitzero"`
	Build  string   `json:"build,omitzero"` // the folder that it is built from
	Ports  []string `json:"ports,omitempty"`
	Mounts []string `json:"mounts,omitempty"` // of folders of the workspace
}

func services(project *composeProject) []service {
	var out []service
	for _, name := range project.ServiceNames() {
		s := project.Services[name]
		one := service{Name: name, Image: s.Image}
		if s.Build != nil {
			one.Build = s.Build.Context
		}
		for _, p := range s.Ports {
			one.Ports = append(one.Ports, fmt.Sprintf("%s:%s->%d", p.HostIP, p.Published, p.Target))
		}
		for _, v := range s.Volumes {
			if v.Type == bindMount {
				one.Mounts = append(one.Mounts, v.Source)
			}
		}
		out = append(out, one)
	}
	return out
}

// A hostPath is a path of the workspace that a file hands to the engine.
type hostPath struct {
	path     string
	readOnly bool
}

// hostPaths are those of a file, clean, each once, in the order of their names. What is
// read only is bound by an approval.
func hostPaths(project *composeProject) (paths []hostPath) {
	for _, name := range project.ServiceNames() {
		s := project.Services[name]
		if s.Build != nil {
			paths = append(paths, hostPath{s.Build.Context, true})
		}
		for _, v := range s.Volumes {
			if v.Type == bindMount && v.Source != dockerSock {
				paths = append(paths, hostPath{v.Source, v.ReadOnly})
			}
		}
	}
	for i, p := range paths {
		paths[i].path = filepath.Clean(p.path)
	}
	slices.SortFunc(paths, func(a, b hostPath) int {
		return cmp.Or(strings.Compare(a.path, b.path), cmp.Compare(fmt.Sprint(a.readOnly), fmt.Sprint(b.readOnly)))
	})
	return slices.Compact(paths)
}

func mountsSocket(project *composeProject) bool {
	for _, s := range project.Services {
		if slices.ContainsFunc(s.Volumes, func(v composeMount) bool { return v.Source == dockerSock }) {
			return true
		}
	}
	return false
}

// projectName is what the engine knows the agent's containers by: one deployment
// an agent.
func projectName(agent string) string { return "mbox-" + strings.ReplaceAll(agent, ":", "-") }
