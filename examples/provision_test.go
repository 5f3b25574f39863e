package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The provisioner of a birth asks for the machine, copies the home and registers the user,
// by programs that stand in for those of the cloud; no secret is in any argument.
func TestProvision(t *testing.T) {
	h := newHouse(t)
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("gcloud", `#!/bin/sh
echo "gcloud $*" >>"$SAID"
case " $* " in
*" describe "*|*"test -s "*) exit 1 ;;
*" true "*) test -e "$SAID.up" || { touch "$SAID.up"; exit 1; } ;;
*"tar -C"*) tar -tf - >>"$SAID.home" ;;
*"claude.env"*) cat >>"$SAID.secrets" ;;
*"mbox.token"*) cat >"$SAID.token" ;;
esac
`, 0o700)
	write("curl", `#!/bin/sh
echo "curl $*" >>"$SAID"
cat >>"$SAID.secrets"
while test "$1" != -o; do shift; done
printf '{\n  "username": "ada_2",\n  "token": "mbox_hunter4",\n  "record": "change-1"\n}\n' >"$2"
`, 0o700)
	said := filepath.Join(dir, "said")
	token, claude := write("token", "mbox_hunter2\n", 0o600), write("claude.env", "ANTHROPIC_API_KEY=hunter3\n", 0o600)
	birth := exec.Command("mbox", "agent", "birth", "ada_2", "--exec", "true", "--provisioner", filepath.Join(here, "provision", "gcp.sh"))
	birth.Env = append(os.Environ(), "MBOX_HOME="+h.home, "PATH="+dir+":"+os.Getenv("PATH"), "SAID="+said, "SSH_PAUSE=0",
		"MBOX_URL=http://127.0.0.1:8787", "MBOX_TOKEN_FILE="+token, "CLAUDE_ENV_FILE="+claude)
	out, err := birth.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if strings.Contains(string(out), "hunter") {
		t.Errorf("a secret is told: %s", out)
	}
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(said + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	calls := read("")
	for _, want := range []string{
		"gcloud compute instances create agent-ada-2 --machine-type e2-medium --image-family debian-12 --image-project debian-cloud --boot-disk-size 20GB --project apes-platform --zone europe-west1-b",
		"@anthropic-ai/claude-code@2.1.34", "sudo chmod 700 /home/ada_2",
		`-H Content-Type: application/json -d {"username":"ada_2","role":"agent"} http://127.0.0.1:8787/api/users`,
	} {
		if !strings.Contains(calls, want) {
			t.Errorf("nobody has said %s:\n%s", want, calls)
		}
	}
	if strings.Contains(calls, "hunter") {
		t.Errorf("a secret is in an argument:\n%s", calls)
	}
	if secrets := read(".secrets"); !strings.Contains(secrets, "Authorization: Bearer mbox_hunter2\"") || !strings.Contains(secrets, "hunter3") {
		t.Errorf("the secrets: %s", secrets)
	}
	if made := read(".token"); made != "mbox_hunter4\n" {
		t.Errorf("the token there is %q", made)
	}
	if home := read(".home"); !strings.Contains(home, "./CLAUDE.md\n") || !strings.Contains(home, "./memory/memory.md\n") {
		t.Errorf("the home: %s", home)
	}
}
