package verify

import (
	"mbox/audit"
	"mbox/mailbox/task"
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

	old, new       task.Digest // before and after, and the tx, decoded
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
	d.old, d.hasOld = task.DigestIn(d.before)
	d.new, d.hasNew = task.DigestIn(d.after)
	d.id, d.hasID = task.TxIn(d.tx)
}
