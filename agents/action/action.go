// Package action holds the acts that an agent can do, one file an action.
//
// An action is a name and parameters, {"action":"write_file","params":{…}}. It
// comes from a model's reply or stands in a task (mbox.action), and goes through
// the same four steps in both cases, for all actions of a reply before the first
// of them is done, so that no reply is half applied:
//
//	Parse     the name is known, the parameters fit their schema
//	Validate  the parameters make sense by themselves
//	Permit    the claiming agent's policy allows them
//	Do        the act
//
// Deny by default: what no rule allows is refused, with a named reason.
package action

import (
	"context"
	"net"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/agents/policy"
	"mbox/mailbox/durable"
)

// Action is one act with its parameters.
type Action interface {
	// Name is the action's name, as a task and a model write it.
	Name() string
	// Validate checks the parameters alone: no disk, no network. The error is a
	// *schemas.Error whose path begins with params.
	Validate(Limits) error
	// Permit asks the policy, and changes nothing. The error is a
	// *policy.Denied where the policy says no.
	Permit(*policy.Policy) error
	// Do does it. An error means that it was not done; what was found out (a
	// missing file, a refused connection) is a Result.
	Do(context.Context, *Env) (Result, error)
}

// Locate puts another path in the place of the one that an action on a file names, if
// that is well-formed. The error is that of Validate.
func Locate(a Action, to func(path string) string) error {
	var path *string
	switch a := a.(type) {
	case *WriteFile:
		path = &a.Path
	case *ReadFile:
		path = &a.Path
	case *FileCheck:
		path = &a.Path
	default:
		return nil
	}
	if err := checkPath(*path); err != nil {
		return err
	}
	*path = to(*path)
	return nil
}

// Result is what an action leaves: status, path and error are the fields of the
// delegation protocol, the rest is what this action has found.
type Result struct {
	Action string         `json:"action"`
	Status string         `json:"status"`         // written, exists, missing, read, ok, failed, validated, deployed, …
	Path   string         `json:"path,omitzero"`  // from the workspace
	Error  string         `json:"error,omitzero"` // what went wrong, one line
	Output jsontext.Value `json:"output,omitzero"`
}

// Limits bound parameters. The zero value has the defaults.
type Limits struct {
	Extensions []string // that write_file takes, with the dot; nil: .txt .md .json .yaml .yml .cfg .conf .ini .log
	MaxBytes   int      // of a file's content; 0: 100,000
	WriteRoots []string // folders of the workspace that write_file may write into; nil: all of it
	Registries []string // that images of deploy_compose may come from; nil: DefaultRegistries
	Autorun    bool     // write_file takes names that programs run by themselves; the role says so
}

// Env is what actions act with.
type Env struct {
	Agent    string
	Policy   *policy.Policy
	Limits   Limits
	HTTP     HTTPOptions
	Compose  ComposeOptions
	Sync     durable.Mode // how write_file writes; the zero value flushes
	Approved bool         // somebody has approved exactly this task
	Folders  []string     // the SHA-256s of the folders that the approval binds, in the order of their names
}

// HTTPOptions are the table [actions.http_check].
type HTTPOptions struct {
	Loopback []string // host:port pairs of this machine that may be asked all the same
	Never    []string // host:port pairs that may not, whatever Loopback says: Ollama, gateways, mbox

	resolver *net.Resolver // of a test; nil: the system's name servers
}

// ComposeOptions are the table [actions.deploy_compose].
type ComposeOptions struct {
	Run    bool // run docker compose; else an approved task too is a dry run
	Socket bool // services may mount the engine's socket
}
