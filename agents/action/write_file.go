package action

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"mbox/agents/policy"
	"mbox/mailbox/durable"
	"mbox/schemas"
)

// WriteFile puts a text into a file of the agent's workspace.
type WriteFile struct {
	Path    string `json:"path" jsonschema:"minLength=1,maxLength=200,description=where\\, from the workspace"`
	Content string `json:"content" jsonschema:"maxLength=1000000,description=the whole text of the file"`
}

// The limits of write_file where a [Limits] has none.
var (
	extensions = []string{".txt", ".md", ".json", ".yaml", ".yml", ".cfg", ".conf", ".ini", ".log"}
	maxBytes   = 100_000
)

// Name is write_file.
func (*WriteFile) Name() string { return "write_file" }

// Validate checks the path, its extension and the content.
func (w *WriteFile) Validate(l Limits) error {
	if err := checkLocal(w.Path); err != nil {
		return err
	}
	if err := checkExtension(w.Path, l.Extensions); err != nil {
		return err
	}
	if name := runsByItself(w.Path); name != "" && !l.Autorun {
		return fault("path", schemas.CodeBadValue, schemas.Quote(name)+" is a name that programs run or obey by themselves",
			"another name, or autorun_files = true in the role's table")
	}
	if len(l.WriteRoots) > 0 && !Below(w.Path, l.WriteRoots...) {
		return fault("path", schemas.CodeBadValue, schemas.Quote(w.Path)+" is in no folder that may be written",
			"a path below "+strings.Join(l.WriteRoots, ", "))
	}
	return checkContent(w.Content, cmp.Or(l.MaxBytes, maxBytes))
}

func checkExtension(name string, allowed []string) error {
	if allowed == nil {
		allowed = extensions
	}
	ext := path.Ext(path.Base(path.Clean(name)))
	if ext == path.Base(path.Clean(name)) { // .log is a name, not an extension
		ext = ""
	}
	same := func(e string) bool { return strings.EqualFold(e, ext) }
	switch {
	case strings.HasSuffix(name, "/"):
		return fault("path", schemas.CodeBadValue, schemas.Quote(name)+" is a folder", "a file")
	case ext == "":
		return fault("path", schemas.CodeBadValue, schemas.Quote(name)+" has no extension", "one of "+strings.Join(allowed, ", "))
	case !slices.ContainsFunc(allowed, same):
		return fault("path", schemas.CodeBadValue, "the extension "+schemas.Quote(ext)+" is not allowed", "one of "+strings.Join(allowed, ", "))
	}
	return nil
}

// autorun are names, beside those that begin with a dot, of files that a program
// runs or obeys as soon as somebody works in their folder: what a model writes
// there is carried out with the rights of that person.
var autorun = []string{
	"package.json", "package.yaml", "nodemon.json", "babel.config.json", "jest.config.json", "devbox.json", "supervisord.conf", "composer.json", "deno.json", "tasks.json", "launch.json", "devcontainer.json", "project.json", "lerna.json", "nx.json", "turbo.json",
	"claude.md", "claude.local.md", "agents.md", "agent.md", "gemini.md", "qwen.md", "warp.md", "opencode.json", "mcp.json", "copilot-instructions.md",
	"compose.yaml", "compose.yml", "compose.override.yaml", "compose.override.yml", "compose.mbox.yaml",
	"docker-compose.yml", "docker-compose.yaml", "docker-compose.override.yml", "docker-compose.override.yaml", "docker-bake.json",
	"pnpm-workspace.yaml", "taskfile.yml", "taskfile.yaml", "lefthook.yml", "lefthook.yaml", "azure-pipelines.yml", "appveyor.yml",
	"bitbucket-pipelines.yml", "cloudbuild.yaml", "mkdocs.yml", "ansible.cfg", "setup.cfg", "tox.ini", "pytest.ini", "pip.conf", "desktop.ini", "autorun.inf", "mbox.toml",
	"setup.py", "conftest.py", "sitecustomize.py", "usercustomize.py", "noxfile.py", "pyproject.toml", "build.rs", "cargo.toml", "makefile", "gnumakefile",
	"makefile.am", "justfile", "rakefile", "gemfile", "vagrantfile", "procfile", "jenkinsfile", "dockerfile", "gulpfile.js", "gruntfile.js", "build.gradle", "pom.xml",
	"cmakelists.txt", "cmakepresets.json", "cmakeuserpresets.json", "default.nix", "shell.nix", "flake.nix",
	"agents.override.md", "crush.md", "crush.json", "package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "cdk.json", "cdktf.json",
	"serverless.yml", "serverless.yaml", "serverless.json", "pulumi.yaml", "pulumi.yml", "skaffold.yaml", "firebase.json", "vercel.json", "wrangler.json",
	"mkdocs.yaml", "taskfile.dist.yml", "taskfile.dist.yaml", "lefthook.json", "lefthook-local.yml", "lefthook-local.yaml", "process-compose.yml", "process-compose.yaml",
	"docker-bake.override.json", "cloudbuild.yml", "cloudbuild.json", "buildspec.yml", "mypy.ini", "alembic.ini", "dub.json", "shard.yml", "_config.yml",
	"wp-cli.yml", "wp-cli.local.yml", "helmfile.yaml", "helmfile.yml",
}

// autorunEndings are those of files that a program obeys by any name.
var autorunEndings = []string{".tf.json", ".tofu.json", ".pkr.json"}

// autorunForms are names of which there are many: of podman-compose, and of Jupyter.
var autorunForms = schemas.Pattern(`(?i)^(?:(?:podman|container)-compose(?:\.override)?\.ya?ml|jupyter_(?:.*_)?config\.(?:json|py))$`)

// runsByItself gives the part of a path that such a program looks for; "" if there
// is none. Names in which only case differs, or what nobody sees, are one on some
// disks, and so are those with dots or spaces behind.
func runsByItself(name string) string {
	parts := strings.FieldsFunc(path.Clean(visible(name)), func(r rune) bool { return r == '/' || r == ':' }) // coder:.vscode
	for _, part := range parts {
		if strings.HasPrefix(part, ".") && part != "." {
			return part
		}
	}
	if len(parts) == 0 {
		return ""
	}
	last := parts[len(parts)-1]
	seen := strings.TrimRight(last, ". ")
	lower := strings.ToLower(seen)
	if slices.ContainsFunc(autorun, func(name string) bool { return strings.EqualFold(name, seen) }) ||
		slices.ContainsFunc(autorunEndings, func(ending string) bool { return strings.HasSuffix(lower, ending) }) ||
		autorunForms().MatchString(seen) {
		return last
	}
	return ""
}

// visible is a name without the characters that some disks leave out of it.
func visible(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) {
			return -1
		}
		return r
	}, name)
}

// Below tells whether a path lies below one of the folders, name by name:
// e2e holds e2e/a.txt and not e2e-old/a.txt.
func Below(name string, roots ...string) bool {
	name = path.Clean(name)
	return slices.ContainsFunc(roots, func(root string) bool {
		root = path.Clean(root)
		return root == "." || strings.HasPrefix(name, root+"/")
	})
}

func checkContent(content string, most int) error {
	bad := func(problem string) error { return fault("content", schemas.CodeBadValue, problem, "text") }
	switch {
	case len(content) > most:
		return fault("content", schemas.CodeTooLong, fmt.Sprintf("has %d bytes", len(content)), fmt.Sprintf("at most %d", most))
	case !utf8.ValidString(content):
		return bad("is no UTF-8")
	case strings.Contains(content, "\x00"):
		return bad("has a NUL byte")
	case strings.HasPrefix(content, "\x7fELF"):
		return bad("begins as a program (ELF)")
	case strings.HasPrefix(strings.TrimPrefix(content, "\ufeff"), "#!"):
		return bad("begins as a script (#!)")
	}
	return nil
}

// Permit asks whether the agent may write there.
func (w *WriteFile) Permit(p *policy.Policy) error {
	if err := p.Tool(w.Name()); err != nil {
		return err
	}
	_, err := p.Write(w.Path)
	return err
}

// Do writes the file whole or not at all: a reader sees the old text or the new
// one. Missing folders are made; nothing is written through a symlink.
func (w *WriteFile) Do(_ context.Context, env *Env) (Result, error) {
	place, err := env.Policy.Write(w.Path)
	if err != nil {
		return Result{}, err
	}
	if place.Device {
		return Result{}, notRegular(w.Path, "device")
	}
	if err := put(place, []byte(w.Content), env.Sync); err != nil {
		return Result{}, err
	}
	sum := sha256.Sum256([]byte(w.Content))
	out, err := output(struct {
		Size   int    `json:"size"`
		SHA256 string `json:"sha256"`
	}{len(w.Content), fmt.Sprintf("sha256:%x", sum)})
	return Result{Action: w.Name(), Status: "written", Path: w.Path, Output: out}, err
}

// put writes a file at a place.
func put(place policy.Place, data []byte, m durable.Mode) error {
	if err := makeFolders(place, m); err != nil {
		return err
	}
	dir, name, err := enter(place)
	if err != nil {
		return err
	}
	defer dir.Close()
	info, err := dir.Lstat(name)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return notRegular(place.Rel, kindName(info.Mode()))
	case err != nil && !missing(err):
		return err
	}
	return durable.ReplaceIn(dir, name, data, m)
}

// makeFolders makes the folders above a place's file that are missing.
func makeFolders(place policy.Place, m durable.Mode) error {
	parents := strings.Split(filepath.ToSlash(filepath.Dir(filepath.Clean(place.Rel))), "/")
	if parents[0] == "." {
		return nil
	}
	for i := range parents {
		if err := makeFolder(policy.Place{Root: place.Root, Rel: path.Join(parents[:i+1]...)}, m); err != nil {
			return err
		}
	}
	return nil
}

func makeFolder(place policy.Place, m durable.Mode) error {
	dir, name, err := enter(place)
	if err != nil {
		return err
	}
	defer dir.Close()
	err = durable.MkdirIn(dir, name, m)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	next, err := stepInto(dir, name) // tells what is there instead
	if err == nil {
		next.Close()
	}
	return err
}

func notRegular(name, kind string) error {
	return &policy.Denied{
		Rule: "path_not_regular", What: schemas.Sentence(name, 2*maxPath),
		Why: "it is a " + kind + ", not a file",
	}
}
