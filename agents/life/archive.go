package life

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"mbox/audit"
	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/lifecycle"
	"mbox/schemas"
)

// archives is the folder of the homes of dead agents, from the home.
const archives = "agents/_archive"

// Manifest is the file manifest.json of an archive: what the home of a dead agent held.
type Manifest struct {
	Agent    string `json:"agent"`
	Files    []File `json:"files"`             // by path
	Unlisted int    `json:"unlisted,omitzero"` // entries that a manifest has no room for
}

// File is an entry of a home that is no folder.
type File struct {
	Path   string `json:"path"` // from the agent's home, with slashes; quoted as in Go where it is no UTF-8
	Size   int64  `json:"size"` // bytes
	SHA256 string `json:"sha256,omitzero"`
	Link   string `json:"link,omitzero"` // where a link leads; what is neither a file nor a link has none of both
}

// mostListed is how many bytes of names and links a manifest may have, of which JSON makes
// six times as many at most. A test has less.
var mostListed = 32 << 20

// What a manifest may be, so that no home is too much for it.
const (
	mostManifest = 256 << 20 // bytes
	eachListed   = 256       // bytes of an entry beside those, of which there may be a sixth as many
	mostPath     = 1 << 10   // bytes of a name: what lies deeper is not listed
	mostHoles    = 1 << 30   // bytes of its files that are nowhere: of those behind them no hash is taken
)

// archiveOf is where an agent is put away that drains since then, from the home.
func archiveOf(a mailbox.Agent, agent string) string {
	return archives + "/" + agent + "-" + stamp(a.Since.Time)
}

// lastArchive is the newest archive of an agent whose home is still in it; "" if none is.
func lastArchive(b *mailbox.Box, agent string) (string, error) {
	all, err := durable.Names(filepath.Join(b.Home(), archives))
	if err != nil && !gone(err) {
		return "", err
	}
	slices.Sort(all)
	for _, name := range slices.Backward(all) {
		at, is := strings.CutPrefix(name, agent+"-")
		if !is || !stamped().MatchString(at) {
			continue
		}
		dir := filepath.Join(b.Home(), archives, name)
		if whole, err := there(filepath.Join(dir, "home")); whole || err != nil {
			return dir, err
		}
	}
	return "", nil
}

// stamped is what stamp makes: no agent has such a name.
var stamped = schemas.Pattern(`^[0-9]{8}T[0-9]{9}Z$`)

// depart puts an agent away that drains, if it has nothing left to do. ErrBusy says that
// something works in its home, such as a dream, and that the wait was over.
func depart(ctx context.Context, b *mailbox.Box, agent, by, reason string, wait time.Duration, follow Follow) (archive string, err error) {
	held, err := Holds(b, agent)
	if err != nil || len(held) > 0 {
		return "", err
	}
	a, err := mailbox.AgentOf(b, agent)
	if err != nil || a.State != lifecycle.Draining {
		return "", err
	}
	archive = archiveOf(a, agent)
	sum, err := store(ctx, b, agent, filepath.Join(b.Home(), archive), wait)
	if err == nil {
		err = follow.tell(ctx, agent, "")
	}
	if err != nil {
		return "", err
	}
	m := lifecycle.Move{Agent: agent, After: lifecycle.Dead, Reason: cmp.Or(reason, a.Reason), Archive: archive, Manifest: sum}
	_, err = mailbox.MoveAgent(ctx, b, by, "put "+agent+" away", m)
	return archive, err
}

// store moves the home and the entry of an agent to a folder of their own, beside the
// manifest, of which it tells the hash.
func store(ctx context.Context, b *mailbox.Box, agent, dir string, wait time.Duration) (sum string, err error) {
	mode := b.Options().Sync
	if err := durable.MkdirAll(dir, mode); err != nil {
		return "", err
	}
	entry := filepath.Join(b.Home(), EntryName(agent))
	if err := moved(entry, filepath.Join(dir, entryFile), mode); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	path := filepath.Join(dir, "manifest.json")
	kept := filepath.Join(dir, "home")
	is, err := there(kept)
	if err != nil {
		return "", err
	}
	if !is {
		if err := putAway(ctx, b, agent, path, kept, wait); err != nil {
			return "", err
		}
	}
	text, err := durable.Read(path, mostManifest)
	return audit.Hash(text), err
}

// putAway lists a home in a manifest, and moves it, while mbox changes nothing in it: a
// dream may not have ended, and a worker not have heard of the end.
func putAway(ctx context.Context, b *mailbox.Box, agent, manifest, kept string, wait time.Duration) error {
	mode, home := b.Options().Sync, b.AgentDir(agent)
	leave, err := Enter(ctx, b, agent, wait)
	if err != nil {
		return err
	}
	unlock, err := lockState(ctx, b, agent)
	if err != nil {
		return errors.Join(err, leave())
	}
	var m *Manifest
	if err = opened(home); err == nil {
		holes := int64(0)
		m, err = manifestOf(ctx, agent, home, func(_ string, hole int64) bool {
			holes += max(0, hole)
			return hole <= 0 || holes <= mostHoles
		}, func(string) bool { return true })
	}
	var text []byte
	if err == nil {
		text, err = schemas.Encode(m)
	}
	if err == nil {
		err = durable.Replace(manifest, text, mode)
	}
	if err == nil {
		err = moved(home, kept, mode)
	}
	return errors.Join(err, unlock(), leave())
}

// opened lets a home be read and moved that its agent has closed.
func opened(home string) error {
	info, err := os.Lstat(home)
	if err != nil || !info.IsDir() || info.Mode().Perm()&durable.DirMode == durable.DirMode {
		return err
	}
	return os.Chmod(home, durable.DirMode)
}

// manifestOf lists a home, but for its logs, into which a worker may write that ends late.
// What is in it an agent may have made: no link is followed, nothing but regular files is
// read, and what cannot be read, or would never end, has no hash. No home is such that it
// could not be listed: that would keep its agent from being put away.
//
// Hashes tells whether a regular file is read, of which so many bytes are nowhere, and
// closed whether what mbox may not read is listed without a hash: else that is the error.
func manifestOf(ctx context.Context, agent, home string, hashes func(path string, hole int64) bool, closed func(path string) bool) (*Manifest, error) {
	m := &Manifest{Agent: agent, Files: []File{}}
	root, err := os.OpenRoot(home)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	listed := 0
	err = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		shut := errors.Is(err, fs.ErrPermission) && path != "." && closed(legible(path))
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !shut:
			return err
		case path == "logs" && d.IsDir():
			return fs.SkipDir
		case len(path) > mostPath:
			m.Unlisted++
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir() && !shut:
			return nil
		}
		f, err := fileOf(root, path, hashes)
		if err != nil && !(errors.Is(err, fs.ErrPermission) && closed(f.Path)) {
			return err
		}
		if listed += len(f.Path) + len(f.Link) + eachListed/6; listed > mostListed {
			m.Unlisted++
			return nil
		}
		m.Files = append(m.Files, f)
		return nil
	})
	slices.SortFunc(m.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return m, err
}

// fileOf is an entry of a home, or a folder of it that is closed.
func fileOf(root *os.Root, path string, hashes func(string, int64) bool) (f File, err error) {
	f = File{Path: legible(path)}
	info, err := root.Lstat(path)
	if err != nil || info.IsDir() {
		return f, err
	}
	f.Size = info.Size()
	switch st, known := info.Sys().(*syscall.Stat_t); {
	case info.Mode()&fs.ModeSymlink != 0:
		f.Link, err = root.Readlink(path)
		f.Link = legible(f.Link)
	case known && info.Mode().IsRegular() && hashes(f.Path, f.Size-512*st.Blocks):
		f.SHA256, err = hashFile(root, path)
	}
	return f, err
}

// legible is a name as JSON can have it.
func legible(name string) string {
	if utf8.ValidString(name) {
		return name
	}
	return strconv.Quote(name)
}

func hashFile(root *os.Root, path string) (string, error) {
	f, _, err := durable.OpenIn(root, path, os.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), nil
}

// Archived is the newest archive of an agent, from the home, and the entry that it had.
// ErrNotFound if there is none, ErrConflict if the agent is not dead.
func Archived(b *mailbox.Box, agent string) (archive string, entry []byte, err error) {
	a, err := mailbox.AgentOf(b, agent)
	if err != nil {
		return "", nil, err
	}
	if a.State != lifecycle.Dead {
		return "", nil, fmt.Errorf("agent %s is %s: %w: only one that is dead can be brought back", agent, a, mailbox.ErrConflict)
	}
	dir, err := lastArchive(b, agent)
	if err != nil {
		return "", nil, err
	}
	if dir == "" {
		return "", nil, fmt.Errorf("%s has no home of %s: %w", archives, agent, mailbox.ErrNotFound)
	}
	entry, err = durable.Read(filepath.Join(dir, entryFile), mostState)
	return archives + "/" + filepath.Base(dir), entry, err
}

// Restore brings an agent back from its newest archive, as it was: the home's files have
// to be those of the manifest, and the manifest that of the ledger's line, or the error is
// a [ChangedError]. The agent is provisioning when it returns.
func Restore(ctx context.Context, b *mailbox.Box, agent, by, reason string, follow Follow) error {
	return alone(ctx, b, func() error {
		archive, entry, err := Archived(b, agent)
		if err == nil {
			err = unchanged(ctx, b, agent, archive)
		}
		if err != nil {
			return err
		}
		path := filepath.Join(b.Home(), EntryName(agent)) + ".new"
		if err := errors.Join(durable.RemoveIfThere(path), durable.RemoveAll(staged(b, agent))); err != nil {
			return err
		}
		if err := stageEntry(path, entry, b.Options().Sync); err != nil {
			return err
		}
		m := lifecycle.Move{Agent: agent, After: lifecycle.Provisioning, Reason: reason, Archive: archive}
		if _, err := mailbox.MoveAgent(ctx, b, by, "brings back "+agent, m); err != nil && !errors.Is(err, mailbox.ErrCommitted) {
			return err // the line may be there all the same
		}
		return arrive(ctx, b, agent, follow)
	})
}

// ChangedError tells what of an archive is not as it was put there.
type ChangedError struct{ Archive, What string }

func (e *ChangedError) Error() string { return e.Archive + ": " + e.What }

// unchanged compares an archive with its manifest, and that with the ledger.
func unchanged(ctx context.Context, b *mailbox.Box, agent, archive string) error {
	dir := filepath.Join(b.Home(), archive)
	text, err := durable.Read(filepath.Join(dir, "manifest.json"), mostManifest)
	if err != nil {
		return err
	}
	sum, err := toldHash(b, agent, archive)
	if err != nil {
		return err
	}
	if sum != audit.Hash(text) {
		return &ChangedError{archive, "manifest.json is not the one of the ledger"}
	}
	var was Manifest
	if err := json.Unmarshal(text, &was); err != nil { // schemas.Decode takes 1 MiB, and this is mbox's own
		return err
	}
	hashed := map[string]bool{}
	for _, f := range was.Files {
		hashed[f.Path] = f.SHA256 != ""
	}
	now, err := manifestOf(ctx, agent, filepath.Join(dir, "home"),
		func(path string, _ int64) bool { return hashed[path] },
		func(path string) bool { read, listed := hashed[path]; return listed && !read })
	if err != nil {
		return err
	}
	if what := differs(was.Files, now.Files); what != "" {
		return &ChangedError{archive, "home/" + what}
	}
	if now.Unlisted != was.Unlisted {
		return &ChangedError{archive, "home has another number of files"}
	}
	return nil
}

// differs tells of the first file, by its path, that is not as it was; "" if all are.
func differs(was, now []File) string {
	for i, f := range was {
		switch {
		case i >= len(now) || now[i].Path > f.Path:
			return f.Path + " is missing"
		case now[i].Path < f.Path:
			return now[i].Path + " was not there"
		case now[i] != f:
			return f.Path + " is not as it was put away"
		}
	}
	if len(now) > len(was) {
		return now[len(was)].Path + " was not there"
	}
	return ""
}

// toldHash is the hash of an archive's manifest as the ledger has it.
func toldHash(b *mailbox.Box, agent, archive string) (string, error) {
	for line, err := range b.Ledger().Naming(archive) {
		if err != nil {
			return "", err
		}
		e, err := line.Decode()
		if err != nil {
			return "", err
		}
		if m, ok := lifecycle.MoveOf(&e); ok && m.Agent == agent && m.Archive == archive && m.After == lifecycle.Dead {
			return m.Manifest, nil
		}
	}
	return "", &ChangedError{archive, "no line of the ledger tells of it"}
}
