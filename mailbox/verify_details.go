package mailbox

import (
	"strconv"

	"github.com/go-json-experiment/json"

	"mbox/audit"
)

// details are a line's details, taken apart: the raw JSON values of what verify
// looks at, nil where it is missing.
type details struct {
	tx, from, to, before, after, reason []byte
	revision, epoch, attempt            []byte
	uid, pid, host                      []byte
	entry, gone, sha256, kept, file     []byte
	why                                 []byte // hash of an entry's reason
	shared                              []byte // others could write the entry
	request, handedBy, handedTo, ruling []byte // of a delegation
	adopted                             bool

	old, new       digest // before and after, and the tx, decoded
	hasOld, hasNew bool
	id             [16]byte
	hasID          bool
}

// read takes the details of a line apart.
func (d *details) read(line *audit.Line) {
	*d = details{}
	for _, m := range line.Members() {
		d.set(m.Name, m.Value)
	}
}

func (d *details) set(key, value []byte) {
	switch string(key) {
	case "tx":
		d.tx = value
	case "from":
		d.from = value
	case "to":
		d.to = value
	case "before":
		d.before = value
	case "after":
		d.after = value
	case "reason":
		d.reason = value
	case "revision":
		d.revision = value
	case "epoch":
		d.epoch = value
	case "attempt":
		d.attempt = value
	case "uid":
		d.uid = value
	case "pid":
		d.pid = value
	case "host":
		d.host = value
	case "entry":
		d.entry = value
	case "gone":
		d.gone = value
	case "reason_sha256":
		d.why = value
	case "shared":
		d.shared = value
	case "sha256":
		d.sha256 = value
	case "kept":
		d.kept = value
	case "file":
		d.file = value
	case "request_id":
		d.request = value
	case "from_agent":
		d.handedBy = value
	case "to_agent":
		d.handedTo = value
	case "decision":
		d.ruling = value
	case "adopted":
		d.adopted = string(value) == "true"
	}
}

// decode reads the hashes of a move.
func (d *details) decode() {
	d.old, d.hasOld = digestIn(d.before)
	d.new, d.hasNew = digestIn(d.after)
	d.id, d.hasID = txIn(d.tx)
}

// stateIn reads a state; missing or null is None.
func stateIn(value []byte) (s State, ok bool) {
	switch string(value) {
	case "", "null":
		return None, true
	case `"pending"`:
		return Pending, true
	case `"in-progress"`:
		return InProgress, true
	case `"completed"`:
		return Completed, true
	case `"failed"`:
		return Failed, true
	case `"archive"`:
		return Archived, true
	case `"pruned"`:
		return pruned, true
	}
	return None, false
}

func folderName(s State) string {
	if s == None {
		return "nowhere"
	}
	return string(s)
}

// numberIn reads an integer; 0 for anything else.
func numberIn(value []byte) int64 {
	n := int64(0)
	for _, c := range value {
		if c < '0' || c > '9' || len(value) > 16 {
			n, _ = strconv.ParseInt(string(value), 10, 64)
			return n
		}
		n = 10*n + int64(c-'0')
	}
	return n
}

func isNumber(value []byte) bool { return len(value) > 0 && value[0] >= '0' && value[0] <= '9' }
func isText(value []byte) bool   { return len(value) > 0 && value[0] == '"' }

// textOf decodes a JSON string; "" for anything else.
func textOf(value []byte) string {
	var s string
	if !isText(value) || json.Unmarshal(value, &s) != nil {
		return ""
	}
	return s
}

// digestIn reads "sha256:<64 hex>".
func digestIn(value []byte) (d digest, ok bool) {
	const prefix = `"sha256:`
	if len(value) != len(prefix)+2*len(d)+1 || string(value[:len(prefix)]) != prefix {
		return d, false
	}
	return d, audit.Unhex(d[:], value[len(prefix):])
}

// txIn reads 32 hex digits.
func txIn(value []byte) (tx [16]byte, ok bool) {
	if len(value) != 2*len(tx)+2 || value[0] != '"' {
		return tx, false
	}
	return tx, audit.Unhex(tx[:], value[1:])
}
