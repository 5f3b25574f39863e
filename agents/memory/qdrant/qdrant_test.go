package qdrant

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	client "github.com/qdrant/go-client/qdrant"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"mbox/agents/memory"
	"mbox/agents/memory/memorytest"
	"mbox/agents/memory/qdrant/qdranttest"
)

// prefix begins the names of the collections of tests.
const prefix = "mbox-test-"

// TestMain leaves nothing on a real server.
func TestMain(m *testing.M) {
	host, port, key := qdranttest.Address()
	code := m.Run()
	if c, err := client.NewClient(&client.Config{Host: host, Port: port, APIKey: key, PoolSize: 1, SkipCompatibilityCheck: true}); err == nil && qdranttest.Real() {
		all, err := c.ListCollections(context.Background())
		for _, name := range all {
			if strings.HasPrefix(name, prefix) {
				err = errors.Join(err, c.DeleteCollection(context.Background(), name))
			}
		}
		if err != nil {
			fmt.Println(err)
			code = 1
		}
	}
	os.Exit(code)
}

// at is where a collection of a name of its own is on the server of the tests.
func at(name, agent string) Options {
	host, port, key := qdranttest.Address()
	return Options{Host: host, Port: port, Key: key, Collection: fmt.Sprintf(prefix+"%x", sha256.Sum256([]byte(name)))[:len(prefix)+12], Agent: agent}
}

func opened(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// own opens the store of an agent in the test's own collection.
func own(t testing.TB, agent string) *Store { return opened(t, at(t.Name(), agent)) }

// fake is the fake server. What looks into it is skipped on a real one.
func fake(t testing.TB) *qdranttest.Server {
	t.Helper()
	if qdranttest.Fake() == nil {
		t.Skip("the server of " + qdranttest.Variable + " is no fake")
	}
	return qdranttest.Fake()
}

func TestQdrant(t *testing.T) {
	memorytest.Suite(t, func(dir string) memorytest.Open {
		return func(t testing.TB, agent string) memory.Store { return opened(t, at(dir, agent)) }
	})
}

func TestMeaning(t *testing.T) {
	memorytest.Meaning(t, func(dir string) memorytest.OpenWith {
		return func(t testing.TB, agent string, e memory.Embedder, warn func(error)) memory.Store {
			s := opened(t, at(dir, agent))
			s.UseEmbeddings(e, warn)
			return s
		}
	})
}

func note(key, content string) memory.Entry {
	return memory.Entry{Category: memory.Core, Key: key, Content: content, At: time.UnixMilli(1771237800123).UTC(), By: "human"}
}

func add(t testing.TB, s *Store, key, content string) string {
	t.Helper()
	id, err := s.Add(t.Context(), note(key, content))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func recalled(t testing.TB, s *Store, query string, limit int) (keys []string) {
	t.Helper()
	found, err := s.Recall(t.Context(), query, limit)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range found {
		keys = append(keys, e.Key)
	}
	return keys
}

func matches(want, text string) bool { return regexp.MustCompile(want).MatchString(text) }

// told tells whether an error says how to mend it.
func told(err error, fix string) bool {
	var f *memory.Fault
	return errors.As(err, &f) && strings.Contains(f.Fix, fix)
}

// What is forgotten is in no collection.
func TestForgottenIsInNoCollection(t *testing.T) {
	server, s := fake(t), own(t, "coder")
	s.UseEmbeddings(&memorytest.Trigrams{Name: "m", Dim: 64}, func(err error) { t.Error(err) })
	add(t, s, "stays", "text")
	id := add(t, s, "goes", "xyzzy")
	if n := server.Points(s.vectorsOf(64)); n != 2 {
		t.Fatalf("%d vectors", n)
	}
	if err := s.Forget(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if n := server.Points(s.vectorsOf(64)); n != 1 {
		t.Errorf("%d vectors are left", n)
	}
	if text := server.Dump(); strings.Contains(text, "xyzzy") || strings.Contains(text, id) {
		t.Error("it is still there")
	}
}

// Where one id is not there, or another agent's, nothing is forgotten.
func TestForgetsAllOrNone(t *testing.T) {
	s := own(t, "coder")
	id, other := add(t, s, "stays", "text"), add(t, own(t, "tester"), "other", "text")
	for _, wrong := range []string{"018f3f3e-0000-7000-8000-000000000001", other} {
		if err := s.Forget(t.Context(), id, wrong); !errors.Is(err, memory.ErrUnknown) || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
	if keys := recalled(t, s, "", 5); len(keys) != 1 {
		t.Errorf("left are %v", keys)
	}
}

// A vector that comes late, of an entry that was forgotten meanwhile, does not stay.
func TestLateVectorGoes(t *testing.T) {
	server, s := fake(t), own(t, "coder")
	s.UseEmbeddings(&memorytest.Trigrams{Name: "m", Dim: 32}, func(err error) { t.Error(err) })
	add(t, s, "stays", "text")
	e := note("goes", "text")
	e.ID = "018f3f3e-0000-7000-8000-000000000001"
	err := s.read(t.Context(), func(ctx context.Context, a *agent) error {
		return s.addVectors(ctx, a, []memory.Entry{e}, [][]float32{make([]float32, 32)})
	})
	if n := server.Points(s.vectorsOf(32)); n != 1 || err != nil {
		t.Errorf("%d vectors, %v", n, err)
	}
}

// Reading makes no collection. Somebody else's, and a newer one, are told and stay as
// they are; one whose making was cut off is made.
func TestStrangeCollections(t *testing.T) {
	s := own(t, "coder")
	if found, err := s.Recall(t.Context(), "x", 5); err != nil || len(found) > 0 {
		t.Errorf("without a collection: %v, %v", found, err)
	}
	if there, err := s.c.CollectionExists(t.Context(), s.o.Collection); there || err != nil {
		t.Errorf("reading has made it: %t, %v", there, err)
	}
	if err := s.create(t.Context(), s.o.Collection, client.NewVectorsConfigMap(nil)); err != nil {
		t.Fatal(err)
	}
	add(t, s, "key", "text")
	for what, change := range map[string]struct {
		version   int64
		want, fix string
	}{"newer": {99, "the version 99", "newer mbox"}, "foreign": {0, "somebody else's", "another name"}} {
		id := idOf("version")
		err := s.put(t.Context(), s.o.Collection, point(id, map[string]*client.Value{"version": client.NewValueInt(change.version)}))
		if change.version == 0 {
			err = s.remove(t.Context(), s.o.Collection, &client.Filter{Must: []*client.Condition{client.NewHasID(id)}})
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := own(t, "coder").Add(t.Context(), note("key", "text")); err == nil || !strings.Contains(err.Error(), change.want) || !told(err, change.fix) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// What is wrong with a server is one error, with what mends it, and without the key, and
// soon.
func TestFaults(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	web := httptest.NewServer(nil) // as the port of REST would be
	defer web.Close()
	secure := httptest.NewTLSServer(nil)
	defer secure.Close()
	good, err := qdranttest.Start("swordfish", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer good.Stop()
	encrypted, err := qdranttest.Start("swordfish", &secure.TLS.Certificates[0])
	if err != nil {
		t.Fatal(err)
	}
	defer encrypted.Stop()
	for name, c := range map[string]struct {
		address   string
		key       string
		tls       bool
		want, fix string
	}{
		"down":         {"127.0.0.1:1", "swordfish", false, "cannot be reached: .*connection refused", "start it"},
		"no host":      {"nowhere.invalid:6334", "swordfish", false, "cannot be reached|not answered", "6334"},
		"silent":       {silent.Addr().String(), "swordfish", false, "not answered within 300ms", "look whether it runs"},
		"web":          {web.Listener.Addr().String(), "swordfish", false, "cannot be reached|not answered", "6334"},
		"no key":       {good.Address, "", false, "refuses the key", "key_file"},
		"wrong key":    {good.Address, "swordfish2", false, "refuses the key", "key_file"},
		"no trust":     {encrypted.Address, "swordfish", true, "cannot be reached: .*certificate", "mend the address"},
		"not in clear": {encrypted.Address, "swordfish", false, "cannot be reached|not answered", "mend the address|6334"},
	} {
		t.Run(name, func(t *testing.T) {
			host, port, _ := net.SplitHostPort(c.address)
			number, _ := strconv.Atoi(port)
			patience := 300 * time.Millisecond
			if !strings.Contains(c.want, "not answered") {
				patience = 10 * time.Second // who answers may be slow
			}
			s := opened(t, Options{Host: host, Port: number, Key: c.key, TLS: c.tls, Agent: "coder", Timeout: patience})
			began := time.Now()
			_, err := s.Add(t.Context(), note("key", "text"))
			var f *memory.Fault
			if !errors.As(err, &f) || !matches(c.want, err.Error()) || !matches(c.fix, f.Fix) {
				t.Fatalf("%v; %+v", err, f)
			}
			if text := fmt.Sprintf("%v %+v", err, f.Fix); strings.Contains(text, "swordfish") {
				t.Errorf("it tells the key: %s", text)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// What a server says is told without the key.
func TestKeyIsHidden(t *testing.T) {
	s := opened(t, Options{Host: "127.0.0.1", Port: 1, Key: "swordfish", Agent: "coder"})
	err := s.about(status.Error(codes.Internal, "panic at swordfish\x1b[2J"))
	if !strings.Contains(err.Error(), "panic at <redacted>") || strings.ContainsAny(err.Error(), "\x1b") {
		t.Error(err)
	}
}

// Over TLS all goes as without.
func TestTLS(t *testing.T) {
	secure := httptest.NewTLSServer(nil)
	defer secure.Close()
	server, err := qdranttest.Start("swordfish", &secure.TLS.Certificates[0])
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	trusted := x509.NewCertPool()
	trusted.AddCert(secure.Certificate())
	host, port, _ := net.SplitHostPort(server.Address)
	number, _ := strconv.Atoi(port)
	s := opened(t, Options{Host: host, Port: number, TLS: true, Key: "swordfish", Agent: "coder", trusted: &tls.Config{RootCAs: trusted}})
	add(t, s, "key", "text")
	if keys := recalled(t, s, "text", 5); len(keys) != 1 {
		t.Errorf("recalled %v", keys)
	}
}

// Who gives up is told that, and not what the server has done.
func TestGivenUp(t *testing.T) {
	s := own(t, "coder")
	given, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Recall(given, "", 5); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
}

// Rare words lead to entries, however many others have the common ones, and other agents'
// do not stand in the way.
func TestRarest(t *testing.T) {
	s, other := own(t, "coder"), own(t, "tester")
	add(t, s, "old", "the zebra crossing")
	filled(t, s, enough+500, "the common text %d")
	add(t, other, "first", "entry")
	filled(t, other, enough+500, "the zebra of others %d")
	found, err := s.Recall(t.Context(), "The ZEBR crossing", 3)
	if err != nil || len(found) == 0 || found[0].Key != "old" || found[0].Score != 1 {
		t.Errorf("recalled %v, %v", found, err)
	}
	if rare, err := s.rarest(t.Context(), "the common crossing missing"); err != nil || len(rare) != 1 || rare[0] != "crossing" {
		t.Errorf("looked for %q, %v", rare, err)
	}
	long := strings.Repeat("ä", 20_000)
	add(t, s, "long", long)
	if keys := recalled(t, s, long, 3); len(keys) != 1 || keys[0] != "long" {
		t.Errorf("a long word: %v", keys)
	}
	n := 0
	for _, err := range s.All(t.Context()) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if n != enough+502 {
		t.Errorf("there are %d entries", n)
	}
	if server := qdranttest.Fake(); server != nil {
		server.Calls()
		recalled(t, s, memorytest.ManyWords(), 5)
		if calls := server.Calls(); calls > mostWords+10 {
			t.Errorf("a long query takes %d requests", calls)
		}
	}
}

// filled adds many entries, of a text that has their number in it.
func filled(t testing.TB, s *Store, n int, text string) {
	t.Helper()
	a, err := s.known(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for from := 0; from < n; from += 500 {
		var some []*client.PointStruct
		for i := from; i < min(from+500, n); i++ {
			e := note("key", fmt.Sprintf(text, i))
			e.At = e.At.Add(time.Duration(i) * time.Millisecond)
			some = append(some, point(idOf(fmt.Sprint(a.uuid, i)), payload(a, e)))
		}
		if err := s.put(t.Context(), s.o.Collection, some...); err != nil {
			t.Fatal(err)
		}
	}
}

// What an agent remembers is its own under another name, and has its UUID.
func TestRename(t *testing.T) {
	const id = "0f6c1e9a-3b52-4a49-9c64-1d7a2d0c8f11"
	o := at(t.Name(), "ada")
	o.UUID = id
	ada, eve := opened(t, o), own(t, "eve")
	if err := ada.Rename(t.Context(), "eve"); err != nil {
		t.Fatalf("where there is nothing: %v", err)
	}
	add(t, ada, "name", "I am ada")
	add(t, own(t, "bob"), "name", "I am bob")
	for range 2 { // said again
		if err := ada.Rename(t.Context(), "eve"); err != nil {
			t.Fatal(err)
		}
		for agent, want := range map[string]bool{"ada": false, "bob": true, "eve": true} {
			if known, err := own(t, agent).Knows(t.Context()); known != want || err != nil {
				t.Errorf("%s is known: %t %v", agent, known, err)
			}
		}
	}
	if a, err := eve.agent(t.Context(), "eve"); err != nil || a.uuid != id {
		t.Errorf("it has another UUID: %+v %v", a, err)
	}
	if keys := recalled(t, eve, "ada", 5); len(keys) != 1 {
		t.Errorf("recalled %v", keys)
	}
	if err := eve.Rename(t.Context(), "bob"); err == nil || !told(err, "another name") {
		t.Errorf("two are one: %v", err)
	}
	if _, err := ada.Add(t.Context(), note("key", "text")); err == nil || !told(err, "collection of its own") {
		t.Errorf("two have one UUID: %v", err)
	}
}

// An agent without a UUID that takes the name of one that was renamed is another one.
func TestNameAnew(t *testing.T) {
	ada := own(t, "ada")
	add(t, ada, "name", "I am ada")
	if err := ada.Rename(t.Context(), "eve"); err != nil {
		t.Fatal(err)
	}
	add(t, own(t, "ada"), "name", "I am another")
	if keys := recalled(t, own(t, "eve"), "another", 5); len(keys) > 0 {
		t.Errorf("recalled %v", keys)
	}
}

// An entry of an unknown time has none.
func TestNoTime(t *testing.T) {
	s := own(t, "coder")
	e := note("key", "text")
	e.At = time.Time{}
	if _, err := s.Add(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	found, err := s.Recall(t.Context(), "", 5)
	if err != nil || len(found) != 1 || !found[0].At.IsZero() {
		t.Errorf("recalled %v, %v", found, err)
	}
}
