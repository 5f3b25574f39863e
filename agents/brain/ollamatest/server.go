// Package ollamatest gives tests a real Ollama server, and models of some hundred
// kilobytes that it takes for real ones: no weights are downloaded.
//
// The server's binary is what OLLAMA_BIN names; .ci/ollama prints the path of
// one, and builds it where there is none. Without it the tests that need it skip,
// and say so; where CI is set they fail.
package ollamatest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Server is a running server. Its methods end the test when they cannot do what
// they are for.
type Server struct {
	URL string // http://127.0.0.1:PORT, the same after a restart
	Dir string // its HOME and its models; gone after the test

	t    testing.TB
	bin  string
	env  []string
	mu   sync.Mutex
	cmd  *exec.Cmd
	log  tail
	gone chan struct{} // closed when the server has ended
}

// Start starts a server for this test, with more environment where it is given
// (OLLAMA_MAX_QUEUE=1). It is stopped at the end of the test, with its runners.
func Start(t testing.TB, env ...string) *Server {
	t.Helper()
	s, err := Run(Binary(t), tempDir(t), env...)
	if err != nil {
		t.Fatal(err)
	}
	s.t = t
	t.Cleanup(func() {
		s.Stop()
		if t.Failed() {
			t.Logf("the server's log ends with\n%s", &s.log)
		}
	})
	return s
}

// tempDir is not t.TempDir: what a killed runner still writes must not make the
// test fail.
func tempDir(t testing.TB) string {
	dir, err := os.MkdirTemp("", "ollama-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// Binary is the server's binary. Where there is none the test skips, or fails
// where CI is set.
func Binary(t testing.TB) string {
	t.Helper()
	bin := os.Getenv("OLLAMA_BIN")
	if bin == "" {
		const missing = "an Ollama server is missing: OLLAMA_BIN names none; OLLAMA_BIN=$(.ci/ollama) builds one"
		if os.Getenv("CI") != "" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	return bin
}

// Run starts a server outside of a test, which Stop ends; for a TestMain and for
// programs. Its methods panic where those of a test's server fail the test.
func Run(bin, dir string, env ...string) (*Server, error) {
	s := &Server{Dir: dir, bin: bin, env: env}
	return s, s.start("127.0.0.1:0")
}

var listening = regexp.MustCompile(`Listening on (127\.0\.0\.1:\d+)`)

// start starts the server in a process group of its own, since its death by
// SIGKILL leaves its runners alive, and reads from its log where it listens.
func (s *Server) start(address string) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd := exec.Command(s.bin, "serve")
	cmd.Env = append([]string{
		"HOME=" + s.Dir, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + s.Dir, "OLLAMA_MODELS=" + filepath.Join(s.Dir, "models"),
		"OLLAMA_HOST=" + address, "OLLAMA_NO_CLOUD=1", "GIN_MODE=release",
	}, s.env...)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = w, w, processAttr()
	gone, started := make(chan struct{}), make(chan error)
	go func() { // on one thread until it has ended: see processAttr
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		w.Close()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is the test's business
			close(gone)
		}
	}()
	if err := <-started; err != nil {
		r.Close()
		return err
	}
	s.mu.Lock()
	s.cmd, s.gone = cmd, gone
	s.mu.Unlock()
	where := make(chan string, 1)
	go s.read(r, where)
	select {
	case found := <-where:
		s.URL = "http://" + found
	case <-gone:
		return fmt.Errorf("the Ollama server has ended at once: %s", &s.log)
	case <-time.After(time.Minute):
		s.signal(syscall.SIGKILL)
		return fmt.Errorf("the Ollama server does not listen after a minute: %s", &s.log)
	}
	return s.answers()
}

// read keeps the end of the log.
func (s *Server) read(log io.ReadCloser, where chan<- string) {
	defer log.Close()
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadString('\n')
		s.log.add(line)
		if m := listening.FindStringSubmatch(line); m != nil {
			select {
			case where <- m[1]:
			default:
			}
		}
		if err != nil {
			return
		}
	}
}

// answers waits until the server answers.
func (s *Server) answers() (err error) {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		var resp *http.Response
		if resp, err = http.Get(s.URL + "/api/version"); err == nil {
			return resp.Body.Close()
		}
	}
	return err
}

// Kill kills the server and its runners with SIGKILL.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

// Stop ends the server as a service manager does, and kills what is left.
func (s *Server) Stop() { s.end(syscall.SIGTERM) }

func (s *Server) end(first syscall.Signal) {
	s.signal(first)
	select {
	case <-s.gone:
	case <-time.After(10 * time.Second):
	}
	s.signal(syscall.SIGKILL)
	<-s.gone
}

// signal goes to the whole group.
func (s *Server) signal(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = syscall.Kill(-s.cmd.Process.Pid, sig) // there may be none left
}

// Pause stops the server's process where it is, until Resume: it takes
// connections and answers nothing. It returns when that is so, since a signal
// reaches the threads of a process one after the other.
func (s *Server) Pause() {
	s.signal(syscall.SIGSTOP)
	impatient := http.Client{Timeout: 200 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		resp, err := impatient.Get(s.URL + "/api/version")
		if err != nil {
			return
		}
		resp.Body.Close()
	}
}

// Resume undoes Pause.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

// Restart starts the server again at its address, with the models it had. It
// must have ended.
func (s *Server) Restart() {
	if err := s.start(strings.TrimPrefix(s.URL, "http://")); err != nil {
		s.fail(err)
	}
}

// KillRunners kills the processes that run the models, and returns how many.
func (s *Server) KillRunners() (n int) {
	out, err := exec.Command("ps", "-A", "-o", "pid=,pgid=,state=").Output()
	if err != nil {
		s.fail(err)
	}
	for line := range strings.Lines(string(out)) {
		var pid, group int
		var state string
		if _, err := fmt.Sscan(line, &pid, &group, &state); err != nil || state == "Z" {
			continue
		}
		if server := s.cmd.Process.Pid; group == server && pid != server {
			n++
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return n
}

// Create makes a model of the file, with a template ("": [Prompt]) and
// parameters besides num_thread 1: more threads wait for each other by spinning.
func (s *Server) Create(name string, file []byte, template string, parameters map[string]any) {
	sum := sha256.Sum256(file)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	s.post("/api/blobs/"+digest, file)
	if template == "" {
		template = Prompt
	}
	all := map[string]any{"num_thread": 1}
	for k, v := range parameters {
		all[k] = v
	}
	request, err := json.Marshal(map[string]any{
		"model": name, "files": map[string]string{"model.gguf": digest},
		"template": template, "parameters": all, "stream": false,
	})
	if err != nil {
		s.fail(err)
	}
	s.post("/api/create", request)
}

// Script makes a model that has the lines by heart.
func (s *Server) Script(name string, lines ...Line) {
	file, err := Script(lines...)
	if err != nil {
		s.fail(err)
	}
	s.Create(name, file, "", nil)
}

func (s *Server) post(path string, body []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+path, bytes.NewReader(body))
	if err != nil {
		s.fail(err)
	}
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		s.fail(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		s.fail(fmt.Errorf("%s: %s %s %w", path, resp.Status, answer, err))
	}
}

func (s *Server) fail(err error) {
	if s.t == nil {
		panic(err)
	}
	s.t.Helper()
	s.t.Fatal(err)
}

// Log is the end of the server's log.
func (s *Server) Log() string { return s.log.String() }

// tail is the end of a text, 16 KiB of it.
type tail struct {
	mu   sync.Mutex
	text string
}

func (l *tail) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text += line
	l.text = l.text[max(0, len(l.text)-16<<10):]
}

func (l *tail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text
}
