package task

import (
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// ArtifactsDir has a folder for each attempt that left artifacts.
const ArtifactsDir = "tasks/artifacts"

// ArtifactFolder is the name of the folder of one attempt's artifacts.
func ArtifactFolder(id ID, epoch int64) string {
	return string(id) + "." + strconv.FormatInt(epoch, 10)
}

// AttemptOf reads the name of such a folder.
func AttemptOf(folder string) (id ID, epoch int64, ok bool) {
	dot := max(strings.LastIndexByte(folder, '.'), 0)
	epoch, err := strconv.ParseInt(strings.TrimPrefix(folder[dot:], "."), 10, 64)
	id = ID(folder[:dot])
	return id, epoch, err == nil && CheckID(id) == nil && ArtifactFolder(id, epoch) == folder
}

// KeptIn tells in which folder an artifact's path lies, if it is one of those
// that mbox keeps; the others lie in an agent's home.
func (a *Artifact) KeptIn() (folder string, ok bool) {
	parts := strings.Split(a.Path, "/")
	n := 2
	if !strings.HasPrefix(a.Path, ArtifactsDir+"/") {
		if n = 3; !strings.HasPrefix(a.Path, "tasks/archive/") {
			return "", false
		}
	}
	if len(parts) < n+2 || !filepath.IsLocal(a.Path) || path.Clean(a.Path) != a.Path {
		return "", false
	}
	return path.Join(parts[:n+1]...), true
}

// Keeps tells in which folder of its own mbox keeps the task's i-th artifact; it
// keeps none of those that lie elsewhere.
func (t *Task) Keeps(i int) (folder string, ok bool) {
	if folder, ok = t.Result.Artifacts[i].KeptIn(); !ok {
		return "", false
	}
	id, _, ok := AttemptOf(path.Base(folder))
	return folder, ok && id == t.ID
}
