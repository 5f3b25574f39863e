package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// A room is a package of the house: its layer, and what it may import besides
// the standard library. Imports go downwards only; within a layer they may go between
// a package and one in its folder, and between those in one folder.
type room struct {
	layer     int
	ours      []string // packages of this module
	libraries []string // modules, or packages of modules, from outside
}

const (
	jsonV2 = "github.com/go-json-experiment/json"
	xsys   = "golang.org/x/sys"
	xsync  = "golang.org/x/sync"

	qdrantClient = "github.com/qdrant/go-client/qdrant"
	grpc         = "google.golang.org/grpc"
)

// rooms is every package there is. A new package, a new edge or a new library
// is a line here first.
//
// Each outside library enters the house through one package: cli through
// cmd/mbox, toml through cmd/mbox/config, fsnotify through mailbox, zstd through mailbox/backup, jsonschema through schemas, the MCP SDK through cmd/mbox/mcp. flock
// enters through mailbox/durable and not, as was planned, through mailbox and
// audit: both need the same lock with the same traps shut (its own descriptor, a
// file that still has its name, a deadline), so it is written once, below both.
var rooms = map[string]room{
	"mailbox/durable":   {layer: 0, libraries: []string{xsys, "github.com/gofrs/flock"}},
	"schemas":           {layer: 0, libraries: []string{jsonV2, "github.com/invopop/jsonschema"}},
	"agents-home":       {layer: 0},
	"audit":             {layer: 1, ours: []string{"mailbox/durable", "schemas"}, libraries: []string{jsonV2, xsys}},
	"audit/record":      {layer: 1, ours: []string{"audit", "schemas"}},
	"audit/verify":      {layer: 1, ours: []string{"audit", "mailbox/durable"}},
	"audit/delegation":  {layer: 1, ours: []string{"audit", "mailbox/durable", "schemas"}, libraries: []string{jsonV2}},
	"agents/policy":     {layer: 1, ours: []string{"schemas"}},
	"agents/sandbox":    {layer: 1, libraries: []string{xsys, "github.com/landlock-lsm/go-landlock"}},
	"mailbox/task":      {layer: 2, ours: []string{"audit", "schemas"}, libraries: []string{jsonV2}},
	"mailbox/home":      {layer: 2, ours: []string{"mailbox/task", "audit", "mailbox/durable", "schemas"}, libraries: []string{xsys, xsync}},
	"mailbox/lease":     {layer: 2, ours: []string{"mailbox/home", "mailbox/task", "audit", "mailbox/durable"}, libraries: []string{xsys}},
	"mailbox/history":   {layer: 2, ours: []string{"mailbox/task", "audit"}},
	"mailbox/lifecycle": {layer: 2, ours: []string{"mailbox/task", "audit"}},
	"mailbox/evidence":  {layer: 2, ours: []string{"mailbox/home", "mailbox/queue", "mailbox/task", "audit", "mailbox/durable"}, libraries: []string{jsonV2}},
	"mailbox/channel":   {layer: 2, ours: []string{"mailbox/task", "audit", "schemas"}},
	"mailbox/artifact":  {layer: 2, ours: []string{"mailbox/task", "mailbox/durable", "schemas"}},
	"mailbox/backup": {
		layer: 2, ours: []string{"mailbox/home", "audit", "mailbox/durable"},
		libraries: []string{jsonV2, "github.com/klauspost/compress/zstd"},
	},
	"mailbox/verify": {layer: 2, ours: []string{"mailbox/channel", "mailbox/home", "mailbox/task", "mailbox/artifact", "audit", "audit/delegation", "audit/verify", "mailbox/durable", "schemas"}},
	"mailbox/tree":   {layer: 2, ours: []string{"mailbox/task", "audit", "schemas"}},
	"mailbox/queue": {
		layer: 2, ours: []string{"mailbox/home", "mailbox/lifecycle", "mailbox/task", "mailbox/tree", "audit", "mailbox/durable"}, libraries: []string{jsonV2},
	},
	"mailbox/mailboxtest": {layer: 2, ours: []string{"mailbox", "mailbox/durable"}}, // for tests only, see testRooms
	"mailbox/linttest":    {layer: 0},                                               // as well
	"mailbox": {
		layer: 2, ours: []string{"mailbox/artifact", "mailbox/backup", "mailbox/channel", "mailbox/evidence", "mailbox/history", "mailbox/home", "mailbox/lease", "mailbox/lifecycle", "mailbox/queue", "mailbox/task", "mailbox/tree", "audit", "audit/delegation", "audit/record", "audit/verify", "mailbox/durable", "schemas"},
		libraries: []string{jsonV2, xsys, "github.com/fsnotify/fsnotify"},
	},
	"agents/action": {
		layer: 2, ours: []string{"agents/policy", "mailbox/durable", "schemas"},
		libraries: []string{jsonV2, xsys, "code.dny.dev/ssrf", "github.com/docker/go-connections/nat", "go.yaml.in/yaml/v4"},
	},
	"agents": {
		layer: 3, ours: []string{"agents/action", "agents/policy", "agents/sandbox", "agents/secret", "agents-home", "mailbox", "mailbox/channel", "mailbox/task", "audit", "audit/delegation", "audit/record", "schemas", "mailbox/durable"},
		libraries: []string{jsonV2, xsys, "github.com/rs/zerolog"},
	},
	"agents/brain": {
		layer: 4, ours: []string{"agents", "agents/sandbox", "mailbox/durable", "schemas"},
		libraries: []string{jsonV2, xsys, "github.com/ollama/ollama"},
	},
	"agents/life":                       {layer: 3, ours: []string{"agents-home", "audit", "mailbox", "mailbox/durable", "mailbox/home", "mailbox/lifecycle", "mailbox/task", "schemas"}, libraries: []string{jsonV2, xsys}},
	"agents/dream":                      {layer: 4, ours: []string{"agents", "agents/life", "audit", "audit/record", "mailbox", "mailbox/durable", "mailbox/task", "schemas"}, libraries: []string{xsys}},
	"agents/secret":                     {layer: 3, ours: []string{"agents/secret/keyring", "mailbox/durable", "mailbox/home", "mailbox/task", "schemas"}, libraries: []string{"filippo.io/age"}},
	"agents/secret/keyring":             {layer: 3, libraries: []string{"github.com/zalando/go-keyring"}},
	"agents/secret/keyring/keyringtest": {layer: 3},                                                            // for tests only, see testRooms
	"agents/secret/secrettest":          {layer: 3, libraries: []string{"github.com/klauspost/compress/zstd"}}, // the same
	"agents/acp":                        {layer: 4, ours: []string{"agents", "agents/policy", "agents/sandbox", "mailbox", "mailbox/durable", "schemas"}, libraries: []string{"github.com/coder/acp-go-sdk", "github.com/rs/zerolog"}},
	"agents/agentzero":                  {layer: 4, ours: []string{"agents", "agents/brain", "agents/policy", "mailbox", "mailbox/durable", "schemas"}, libraries: []string{"github.com/rs/zerolog"}},
	"agents/brain/ollamatest":           {layer: 0}, // for tests only, see testRooms
	"agents/memory":                     {layer: 4, ours: []string{"audit", "mailbox/durable", "schemas"}},
	"agents/memory/sqlite":              {layer: 4, ours: []string{"agents/memory", "mailbox/durable"}, libraries: []string{"modernc.org/sqlite", "github.com/google/uuid"}},
	"agents/memory/adapter":             {layer: 4, ours: []string{"agents/memory", "schemas"}, libraries: []string{jsonV2}},
	"agents/memory/memorytest":          {layer: 4, ours: []string{"agents/memory"}}, // for tests only, see testRooms
	"agents/memory/postgres":            {layer: 4, ours: []string{"agents/memory", "mailbox/durable", "schemas"}, libraries: []string{"github.com/jackc/pgx/v5", "github.com/google/uuid"}},
	"agents/memory/qdrant":              {layer: 4, ours: []string{"agents/memory", "schemas"}, libraries: []string{qdrantClient, grpc, "github.com/google/uuid"}}, // cmd/mbox has it by cmd/mbox-qdrant alone
	"agents/chat":                       {layer: 4, ours: []string{"audit", "mailbox", "mailbox/durable", "mailbox/home", "mailbox/task", "schemas"}, libraries: []string{jsonV2}},
	"agents/chat/command":               {layer: 4, ours: []string{"agents/chat"}},
	"agents/chat/openclaw":              {layer: 4, ours: []string{"agents/chat", "agents/chat/command"}},
	"agents/chat/slack":                 {layer: 4, ours: []string{"agents/chat", "agents/chat/web"}, libraries: []string{jsonV2, "github.com/coder/websocket"}},
	"agents/chat/stdio":                 {layer: 4, ours: []string{"agents/chat", "schemas"}},
	"agents/chat/irc":                   {layer: 4, ours: []string{"agents/chat"}},
	"agents/chat/web":                   {layer: 4, ours: []string{"agents/chat"}, libraries: []string{"golang.org/x/net"}},
	"agents/chat/webhook":               {layer: 4, ours: []string{"agents/chat", "agents/chat/web"}, libraries: []string{jsonV2}},
	"agents/chat/bluebubbles":           {layer: 4, ours: []string{"agents/chat", "agents/chat/web"}, libraries: []string{jsonV2}},
	"agents/chat/matrix":                {layer: 4, ours: []string{"agents/chat", "agents/chat/web"}, libraries: []string{jsonV2}},
	"agents/chat/telegram":              {layer: 4, ours: []string{"agents/chat", "agents/chat/web"}, libraries: []string{jsonV2}},
	"agents/chat/ntfy":                  {layer: 4, ours: []string{"agents/chat", "agents/chat/web"}, libraries: []string{jsonV2}},
	"agents/chat/imsg":                  {layer: 4, ours: []string{"agents/chat", "agents/sandbox", "schemas"}, libraries: []string{jsonV2}},
	"agents/chat/chattest":              {layer: 4, ours: []string{"agents/chat"}}, // for tests only, see testRooms
	"agents/memory/postgres/postgrestest": { // for tests only, see testRooms
		layer: 4, libraries: []string{"github.com/jackc/pgx/v5"},
	},
	"agents/memory/qdrant/qdranttest": { // for tests only, see testRooms
		layer: 4, libraries: []string{qdrantClient, grpc, "github.com/google/uuid"},
	},
	"agents/memory/qdrant/qdranttest/fake": {layer: 4, ours: []string{"agents/memory/qdrant/qdranttest"}}, // it is run by tests
	"agents/chat/email": {
		layer: 4, ours: []string{"agents/chat"},
		libraries: []string{
			"golang.org/x/text", "github.com/emersion/go-imap/v2", "github.com/emersion/go-message",
			"github.com/emersion/go-sasl", "github.com/emersion/go-smtp",
		},
	},
	"examples":          {layer: 0}, // its tests run the examples as anybody would
	"cmd/mbox/help":     {layer: 0},
	"cmd/prove/bench":   {layer: 5, ours: []string{"mailbox", "mailbox/verify", "mailbox/durable"}, libraries: []string{jsonV2, xsys}},
	"cmd/prove/mutants": {layer: 5, libraries: []string{xsync}},
	"cmd/mbox/sight":    {layer: 3, ours: []string{"mailbox", "mailbox/task", "audit"}},
	"cmd/mbox/gateway": {
		layer: 5, ours: []string{"agents", "agents/chat/web", "agents/life", "mailbox/channel", "cmd/mbox/gateway/pages", "cmd/mbox/gateway/token", "cmd/mbox/sight", "mailbox", "mailbox/durable", "mailbox/home", "mailbox/lifecycle", "mailbox/task", "mailbox/verify", "audit", "audit/delegation", "audit/record", "schemas"},
		libraries: []string{jsonV2, "github.com/rs/zerolog", "golang.org/x/net"},
	},
	"cmd/mbox/gateway/pages": {layer: 4, ours: []string{"schemas"}, libraries: []string{jsonV2}},
	"cmd/mbox/gateway/token": {layer: 4, ours: []string{"mailbox/home", "mailbox/task", "mailbox/durable", "schemas"}},
	"cmd/mbox/schedule":      {layer: 3, libraries: []string{"github.com/netresearch/go-cron"}},
	"cmd/mbox/telemetry":     {layer: 5, ours: []string{"agents", "agents/chat", "agents/chat/web", "audit", "mailbox", "mailbox/durable", "mailbox/task", "schemas"}, libraries: []string{jsonV2}},
	"cmd/mbox/timetable":     {layer: 5, ours: []string{"cmd/mbox/config", "cmd/mbox/schedule", "mailbox", "audit", "audit/record", "mailbox/durable", "schemas"}},
	"cmd/mbox/config": {
		layer: 5, ours: []string{"cmd/mbox/schedule", "agents", "agents/action", "agents/chat", "agents/policy", "agents-home", "mailbox", "mailbox/channel", "mailbox/task", "audit", "schemas", "mailbox/durable"},
		libraries: []string{"github.com/pelletier/go-toml/v2"},
	},
	"cmd/mbox/check": {
		layer: 5, ours: []string{"cmd/mbox/config", "cmd/mbox/gateway/token", "agents", "agents/chat", "agents/life", "agents/policy", "agents/sandbox", "cmd/mbox/telemetry", "mailbox", "mailbox/home", "mailbox/lifecycle", "audit", "schemas", "mailbox/durable", "cmd/mbox/timetable", "agents/secret"},
	},
	"cmd/mbox/mcp": {
		layer: 5, ours: []string{"agents/life", "cmd/mbox/sight", "mailbox", "mailbox/channel", "mailbox/task", "mailbox/verify", "mailbox/durable", "audit", "audit/record", "schemas"},
		libraries: []string{jsonV2, "github.com/modelcontextprotocol/go-sdk"},
	},
	"cmd/mbox/top": {
		layer: 5, ours: []string{"cmd/mbox/check", "mailbox", "mailbox/home", "mailbox/lifecycle", "mailbox/task", "audit", "schemas", "mailbox/durable", "cmd/mbox/config"},
		libraries: []string{"charm.land/bubbletea/v2", "github.com/charmbracelet/x/ansi"},
	},
	"cmd/mbox-qdrant": {layer: 6, ours: []string{"agents/brain", "agents/memory", "agents/memory/adapter", "agents/memory/qdrant", "cmd/mbox/config"}},
	"cmd/mbox": {
		layer: 5, ours: []string{"cmd/mbox/check", "cmd/mbox/config", "cmd/mbox/gateway", "cmd/mbox/gateway/token", "cmd/mbox/help", "cmd/mbox/mcp", "cmd/mbox/top", "agents", "agents/action", "agents/brain", "agents/life", "agents/dream", "agents/chat", "agents/chat/bluebubbles", "agents/chat/command", "agents/chat/email", "agents/chat/imsg", "agents/chat/irc", "agents/chat/matrix", "agents/chat/ntfy", "agents/chat/openclaw", "agents/chat/stdio", "agents/chat/telegram", "agents/chat/webhook", "agents/policy", "agents/sandbox", "agents-home", "mailbox", "mailbox/backup", "mailbox/home", "mailbox/task", "mailbox/verify", "audit", "audit/delegation", "audit/record", "schemas", "mailbox/durable", "agents/acp", "agents/agentzero", "mailbox/lifecycle", "agents/chat/slack", "cmd/mbox/schedule", "cmd/mbox/timetable", "examples", "mailbox/channel", "cmd/mbox/telemetry", "agents/memory", "agents/memory/adapter", "agents/memory/postgres", "agents/memory/sqlite", "agents/secret"},
		libraries: []string{
			jsonV2, xsys, "golang.org/x/term", "github.com/rs/zerolog", "github.com/urfave/cli/v2",
			"github.com/schollz/progressbar/v3", "github.com/google/uuid",
			"github.com/schollz/progressbar/v3", "github.com/coreos/go-systemd",
		},
	},
}

// What any test file may use besides.
var testLibraries = []string{
	"github.com/rogpeppe/go-internal", "pgregory.net/rapid", "github.com/anishathalye/porcupine", "github.com/google/go-cmp",
	"github.com/santhosh-tekuri/jsonschema/v6", "github.com/compose-spec/compose-go/v2", "github.com/getkin/kin-openapi", "github.com/prometheus/client_golang", "github.com/chromedp",
	"github.com/emersion/go-imap/v2", "github.com/emersion/go-sasl", "github.com/emersion/go-smtp",
	"go.opentelemetry.io/proto/otlp", "google.golang.org/protobuf",
}

// testRooms are the packages of this module that any test file may use.
var testRooms = []string{"agents/brain/ollamatest", "agents/memory/memorytest", "agents/memory/postgres/postgrestest", "agents/memory/qdrant/qdranttest", "agents/chat/chattest", "agents/secret/keyring/keyringtest", "agents/secret/secrettest", "mailbox/linttest", "mailbox/mailboxtest", "mailbox/verify"}

// What the lowest three layers may not use: they return errors and never log.
var loggers = []string{"log", "log/slog", "github.com/rs/zerolog"}

// talkers are the packages that may open connections: a brain to its server, Agent Zero's,
// http_check, a memory to its database, and the door, which only listens. No agent calls another one; they leave
// tasks.
var talkers = []string{"agents/action", "agents/agentzero", "agents/brain", "agents/brain/ollamatest", "agents/chat/bluebubbles", "agents/chat/email", "agents/chat/irc", "agents/chat/matrix", "agents/chat/ntfy", "agents/chat/slack", "agents/chat/telegram", "agents/chat/web", "agents/chat/webhook", "agents/memory/postgres", "agents/memory/postgres/postgrestest", "agents/memory/qdrant", "agents/memory/qdrant/qdranttest", "cmd/mbox/gateway", "cmd/mbox/telemetry"}

// connects are the packages that open connections or listen, and dials the
// functions with which anybody could.
var (
	connects = []string{"net", "net/http", "net/rpc", "net/rpc/jsonrpc", "net/smtp", "net/textproto", "crypto/tls"}
	dials    = []string{"Dial", "DialTimeout", "DialContext", "DialTCP", "DialUDP", "DialUnix", "DialIP", "Listen", "ListenTCP", "ListenUnix", "ListenPacket", "Socket", "Connect"}
)

var (
	topFolders   = []string{"cmd", "mailbox", "agents", "audit", "schemas", "examples", "agents-home"}
	emptyWords   = []string{"internal", "pkg", "util", "utils", "common", "helper", "helpers", "base", "types", "models", "misc", "lib", "shared"}
	onDisk       = []string{"os", "syscall", "golang.org/x/sys/unix"}
	durableCalls = []string{
		"Rename", "Renameat", "Renameat2", "RenamexNp", "RenameatxNp", "Link", "Linkat",
		"Sync", "Syncfs", "SyncFileRange", "Fsync", "Fdatasync", "F_FULLFSYNC", "F_BARRIERFSYNC",
	}
)

func TestHouse(t *testing.T) {
	for _, fault := range inspect(t, os.DirFS(moduleRoot(t))) {
		t.Error(fault)
	}
}

func TestHouseRulesBite(t *testing.T) {
	const zerolog = `"github.com/rs/zerolog"`
	for _, c := range []struct{ file, imports, body, want string }{
		{"mailbox/x.go", `"mbox/audit"`, "", ""},
		{"mailbox/x.go", `"mbox/agents"`, "", "mailbox may not import mbox/agents"},
		{"audit/x.go", `"mbox/mailbox"`, "", "audit may not import mbox/mailbox"},
		{"audit/x.go", `"mbox/audit/record"`, "", "audit may not import mbox/audit/record"},
		{"audit/x.go", `"mbox/audit/verify"`, "", "audit may not import mbox/audit/verify"},
		{"audit/x.go", `"mbox/audit/delegation"`, "", "audit may not import mbox/audit/delegation"},
		{"audit/x_test.go", `"mbox/mailbox"`, "", "audit may not import mbox/mailbox"},
		{"audit/x_test.go", `"mbox/audit"; "pgregory.net/rapid"`, "", ""},
		{"audit/x.go", `"pgregory.net/rapid"`, "", "audit may not import pgregory.net/rapid"},
		{"agents/x_test.go", `"mbox/agents/brain/ollamatest"`, "", ""},
		{"agents/brain/x.go", `"mbox/agents/brain/ollamatest"`, "", "agents/brain may not import mbox/agents/brain/ollamatest"},
		{"schemas/x.go", `"github.com/invopop/jsonschema"`, "", ""},
		{"schemas/x.go", `"github.com/invopop/jsonschemas"`, "", "schemas may not import"},
		{"mailbox/x.go", zerolog, "", "mailbox may not import"},
		{"agents/x.go", zerolog, "", ""},
		{"audit/x.go", `"log/slog"`, "", "audit is in layer 1, which never logs"},
		{"audit/x.go", `. "os"`, "", "a dot import"},
		{"mailbox/relay/x.go", "", "", "mailbox/relay is not in the table"},
		{"agents/util/x.go", "", "", "no folder of the house is named util"},
		{"internal/x.go", "", "", "no folder of the house is named internal"},
		{"web/x.go", "", "", "web is no top-level folder"},
		{"mailbox/x.go", `"os"`, `os.Rename("a", "b")`, "only mailbox/durable calls os.Rename"},
		{"mailbox/x.go", `disk "os"`, `disk.Rename("a", "b")`, "only mailbox/durable calls os.Rename"},
		{"mailbox/x.go", `"golang.org/x/sys/unix"`, "unix.Fdatasync(3)", "calls golang.org/x/sys/unix.Fdatasync"},
		{"mailbox/x.go", "", "f.Sync()", "only mailbox/durable calls Sync"},
		{"mailbox/x_test.go", `"os"`, `os.Rename("a", "b")`, ""},
		{"agents/x.go", `"net/http"`, "", "agents imports net/http: agents talk by tasks alone"},
		{"agents/policy/x.go", `"net"`, "", "agents/policy imports net: agents talk by tasks alone"},
		{"agents/sandbox/x.go", `"golang.org/x/sys/unix"`, "unix.Connect(3, nil)", "only brains, http_check and the door call golang.org/x/sys/unix.Connect"},
		{"agents/policy/x.go", `"mbox/agents/brain"`, "", "agents/policy may not import mbox/agents/brain"},
		{"agents/action/x.go", `"mbox/agents"`, "", "agents/action may not import mbox/agents"},
		{"agents/brain/x.go", `"net/http"`, "", ""},
		{"agents/x_test.go", `"net/http"`, "", ""},
		{"agents/x.go", `"net/url"`, "", ""},
		{"cmd/mbox/check/x.go", `"mbox/cmd/mbox/config"`, "", ""},
		{"cmd/mbox/config/x.go", `"mbox/cmd/mbox/check"`, "", "cmd/mbox/config may not import mbox/cmd/mbox/check"},
		{"cmd/mbox/config/x.go", `"mbox/cmd/mbox/help"`, "", "cmd/mbox/config may not import mbox/cmd/mbox/help"},
		{"cmd/mbox/x.go", `"net"`, `net.Dial("tcp", "x:1")`, "only brains, http_check and the door call net.Dial"},
		{"cmd/mbox/x.go", `"net"`, `net.ParseIP("::1")`, ""},
		{"mailbox/durable/x.go", `"os"`, `os.Rename("a", "b")`, ""},
		{"mailbox/testdata/x.go", `"mbox/agents"`, "", ""},
		{"mailbox/x_darwin.go", `"mbox/agents"`, "", "mailbox may not import"},
	} {
		source := fmt.Sprintf("package x\nimport (%s)\nfunc init() { %s }\n", c.imports, c.body)
		faults := strings.Join(inspect(t, fstest.MapFS{c.file: {Data: []byte(source)}}), "\n")
		if c.want == "" && faults != "" || !strings.Contains(faults, c.want) {
			t.Errorf("%s with %s %s: got %q, want %q", c.file, c.imports, c.body, faults, c.want)
		}
	}
}

// moduleRoot is the folder of go.mod: tests run in their package's folder.
func moduleRoot(t *testing.T) string {
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil {
			return dir
		}
		if filepath.Dir(dir) == dir {
			break
		}
		dir = filepath.Dir(dir)
	}
	t.Fatalf("no go.mod above the tests: %v", err)
	return ""
}

// inspect lists what is wrong with a tree. It reads every file whatever its
// build tags, so that it sees the same on every system.
func inspect(t *testing.T, tree fs.FS) (faults []string) {
	seen := map[string]bool{}
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || name == ".":
			return err
		case d.IsDir():
			return skipped(tree, name)
		case !strings.HasSuffix(name, ".go"):
			return nil
		}
		if dir := path.Dir(name); !seen[dir] {
			seen[dir] = true
			faults = append(faults, inspectFolder(dir)...)
		}
		source, err := fs.ReadFile(tree, name)
		if err == nil {
			faults = append(faults, inspectFile(t, name, source)...)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return faults
}

// maxMethods is how many methods a type may have: one with more does more than one
// thing.
const maxMethods = 60

func TestHouseTypes(t *testing.T) {
	root, methods := os.DirFS(moduleRoot(t)), map[string]int{}
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		if d.IsDir() {
			return skipped(root, name)
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		source, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.SkipObjectResolution)
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv != nil {
				methods[path.Dir(name)+"."+strings.TrimPrefix(types.ExprString(f.Recv.List[0].Type), "*")]++
			}
		}
		return err
	})
	if err != nil || methods["mailbox.Box"] == 0 {
		t.Fatalf("%d types, and Box has no method: %v", len(methods), err)
	}
	for name, n := range methods {
		if n > maxMethods {
			t.Errorf("%s has %d methods, and at most %d are allowed", name, n, maxMethods)
		}
	}
}

// skipped keeps out what go's ./... keeps out: hidden folders, testdata, and
// modules of their own.
func skipped(tree fs.FS, dir string) error {
	base := path.Base(dir)
	_, err := fs.Stat(tree, path.Join(dir, "go.mod"))
	if err == nil || base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return fs.SkipDir
	}
	return nil
}

func inspectFolder(dir string) (faults []string) {
	if _, known := rooms[dir]; !known {
		faults = append(faults, fmt.Sprintf("%s is not in the table of cmd/mbox/house_test.go: give it a layer and its imports", dir))
	}
	parts := strings.Split(dir, "/")
	if !slices.Contains(topFolders, parts[0]) {
		faults = append(faults, fmt.Sprintf("%s is no top-level folder: want %s", parts[0], strings.Join(topFolders, ", ")))
	}
	for _, part := range parts {
		if slices.Contains(emptyWords, part) {
			faults = append(faults, fmt.Sprintf("%s: no folder of the house is named %s: say what it is to mbox", dir, part))
		}
	}
	return faults
}

func inspectFile(t *testing.T, name string, source []byte) (faults []string) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	at := func(n ast.Node, format string, a ...any) {
		faults = append(faults, fmt.Sprintf("%s: %s", files.Position(n.Pos()), fmt.Sprintf(format, a...)))
	}
	dir, test := path.Dir(name), strings.HasSuffix(name, "_test.go")
	imports := map[string]string{} // the name in this file → the path
	for _, spec := range file.Imports {
		target, _ := strconv.Unquote(spec.Path.Value)
		imports[localName(spec, target)] = target
		if spec.Name != nil && spec.Name.Name == "." {
			at(spec, "a dot import hides where names come from")
		}
		if room := rooms[dir]; room.layer <= 2 && slices.Contains(loggers, target) {
			at(spec, "%s is in layer %d, which never logs: %s", dir, room.layer, target)
		}
		if !test && strings.HasPrefix(dir, "agents") && slices.Contains(connects, target) && !slices.Contains(talkers, dir) {
			at(spec, "%s imports %s: agents talk by tasks alone", dir, target)
		}
		if !mayImport(dir, target, test) {
			at(spec, "%s may not import %s", dir, target)
		}
	}
	if !test && dir != "mailbox/durable" {
		ast.Inspect(file, func(n ast.Node) bool {
			if what := durableCall(n, imports); what != "" {
				at(n, "only mailbox/durable calls %s", what)
			}
			if what := dialCall(n, imports); what != "" && !slices.Contains(talkers, dir) {
				at(n, "only brains, http_check and the door call %s", what)
			}
			return true
		})
	}
	return faults
}

func localName(spec *ast.ImportSpec, target string) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	return path.Base(target)
}

func mayImport(dir, target string, test bool) bool {
	if own, ok := strings.CutPrefix(target, "mbox/"); ok {
		return slices.Contains(rooms[dir].ours, own) || test && (own == dir || slices.Contains(testRooms, own))
	}
	if first, _, _ := strings.Cut(target, "/"); !strings.Contains(first, ".") {
		return true // the standard library
	}
	allowed := rooms[dir].libraries
	if test {
		allowed = slices.Concat(allowed, testLibraries)
	}
	return slices.ContainsFunc(allowed, func(library string) bool {
		return target == library || strings.HasPrefix(target, library+"/")
	})
}

// dialCall names what a node uses of the functions that open connections.
func dialCall(n ast.Node, imports map[string]string) string {
	s, ok := n.(*ast.SelectorExpr)
	if !ok || !slices.Contains(dials, s.Sel.Name) {
		return ""
	}
	x, ok := s.X.(*ast.Ident)
	if !ok {
		return ""
	}
	if from := imports[x.Name]; slices.Contains(connects, from) || slices.Contains(onDisk, from) {
		return from + "." + s.Sel.Name
	}
	return ""
}

// durableCall names what a node uses of the calls that only mailbox/durable may
// use: the functions of os, syscall and unix, and the Sync of a file.
func durableCall(n ast.Node, imports map[string]string) string {
	if call, ok := n.(*ast.CallExpr); ok && len(call.Args) == 0 {
		if s, ok := call.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Sync" {
			return "Sync"
		}
	}
	s, ok := n.(*ast.SelectorExpr)
	if !ok || !slices.Contains(durableCalls, s.Sel.Name) {
		return ""
	}
	if x, ok := s.X.(*ast.Ident); ok && slices.Contains(onDisk, imports[x.Name]) {
		return imports[x.Name] + "." + s.Sel.Name
	}
	return ""
}

// The table holds itself to the rule that it is for, and CONTRIBUTING says what each
// package is there for.
func TestHouseTable(t *testing.T) {
	contributing, err := os.ReadFile(filepath.Join(moduleRoot(t), ".github", "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	for dir, room := range rooms {
		if !strings.Contains(string(contributing), "| `"+dir+"` | ") {
			t.Errorf(".github/CONTRIBUTING.md has no row for %s", dir)
		}
		for _, below := range room.ours {
			lower, known := rooms[below]
			kin := lower.layer == room.layer && (strings.HasPrefix(dir, below+"/") || strings.HasPrefix(below, dir+"/") ||
				path.Dir(dir) == path.Dir(below) && path.Dir(dir) != ".")
			if !known || lower.layer >= room.layer && !kin {
				t.Errorf("%s is in layer %d and may import %s, which does not lie below", dir, room.layer, below)
			}
		}
	}
}

// The table in mailbox's package comment leads from each rule to the packages that
// have its tests.
func TestHouseRules(t *testing.T) {
	const rules = 39
	comment, err := os.ReadFile(filepath.Join(moduleRoot(t), "mailbox", "box.go"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[int]string{}
	for _, m := range regexp.MustCompile(`(?m)^//\t *(\d+)  .*\S  +(\S.*)$`).FindAllStringSubmatch(string(comment), -1) {
		n, _ := strconv.Atoi(m[1])
		listed[n] = m[2]
	}
	held := map[int][]string{}
	test := regexp.MustCompile(`(?m)^func TestRule(\d\d)`)
	for dir := range rooms {
		files, _ := filepath.Glob(filepath.Join(moduleRoot(t), filepath.FromSlash(dir), "*_test.go"))
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range test.FindAllStringSubmatch(string(data), -1) {
				if n, _ := strconv.Atoi(m[1]); !slices.Contains(held[n], dir) {
					held[n] = append(held[n], dir)
				}
			}
		}
	}
	for n := 1; n <= rules; n++ {
		if slices.Sort(held[n]); len(held[n]) == 0 || listed[n] != strings.Join(held[n], ", ") {
			t.Errorf("rule %d has tests in %v, and mailbox/box.go says %q", n, held[n], listed[n])
		}
	}
}
