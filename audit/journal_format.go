package audit

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/crc32"
	"strings"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Journaled is one record of the journal.
type Journaled struct {
	Seq     int64
	At      Position // where its line begins
	Payload Payload  // Name "" if it has none
	bytes   []byte   // of the ledger, at At
	prev    string
	sum     string
}

// Entry is the entry of the record's line.
func (j Journaled) Entry() (Entry, error) { return Line{Raw: bytes.Trim(j.bytes, "\n")}.Decode() }

// journalRecord renders a record.
func journalRecord(at Position, line []byte, p Payload) []byte {
	head := fmt.Sprintf("journal %s %d %d %s %d ", at.File, at.Offset, len(line), cmp.Or(p.Name, "-"), len(p.Data))
	sum := crc32.Update(0, castagnoli, []byte(head))
	sum = crc32.Update(sum, castagnoli, line)
	sum = crc32.Update(sum, castagnoli, p.Data)
	n := len(head) + 9 + len(line) + len(p.Data)
	record := make([]byte, 0, (n+journalBlock-1)/journalBlock*journalBlock)
	record = fmt.Appendf(append(record, head...), "%08x\n", sum)
	record = append(append(record, line...), p.Data...)
	return record[:cap(record)]
}

// baseRecord renders the base: the position up to which all is on disk.
func baseRecord(at Position) []byte {
	text := fmt.Sprintf("base %s %d %d %s ", cmp.Or(at.File, "-"), at.Offset, at.Seq, at.Checksum)
	record := make([]byte, journalBlock)
	copy(record, fmt.Sprintf("%s%08x\n", text, crc32.Checksum([]byte(text), castagnoli)))
	return record
}

// parseBase takes the base at the beginning of data.
func parseBase(data []byte) (at Position, ok bool) {
	first, _, found := bytes.Cut(data[:min(len(data), journalBlock)], []byte{'\n'})
	f := strings.Split(string(first), " ")
	if !found || len(f) != 6 || f[0] != "base" || len(f[5]) != 8 {
		return at, false
	}
	if fmt.Sprintf("%08x", crc32.Checksum(first[:len(first)-8], castagnoli)) != f[5] {
		return at, false
	}
	at = Position{File: f[1], Checksum: f[4]}
	if at.File == "-" {
		at.File = ""
	}
	_, err := fmt.Sscanf(f[2]+" "+f[3], "%d %d", &at.Offset, &at.Seq)
	return at, err == nil && at.Offset >= 0 && at.Seq >= 0
}

// parseJournaled takes the record at the beginning of data; ok is false where
// none stands. n is how many bytes it takes.
func parseJournaled(data []byte) (rec Journaled, n int, ok bool) {
	first, _, found := bytes.Cut(data[:min(len(data), journalBlock)], []byte{'\n'})
	f := strings.Split(string(first), " ")
	if !found || len(f) != 7 || f[0] != "journal" {
		return rec, 0, false
	}
	var offset int64
	var length, size int
	var sum uint32
	if _, err := fmt.Sscanf(f[2]+" "+f[3]+" "+f[5]+" "+f[6], "%d %d %d %08x", &offset, &length, &size, &sum); err != nil {
		return rec, 0, false
	}
	rest := data[len(first)+1:]
	if offset < 0 || length < 1 || length > 2*MaxLine || size < 0 || size > MaxPayload || length+size > len(rest) {
		return rec, 0, false
	}
	line, content := rest[:length], rest[length:length+size]
	have := crc32.Update(0, castagnoli, first[:len(first)-8])
	have = crc32.Update(crc32.Update(have, castagnoli, line), castagnoli, content)
	if have != sum {
		return rec, 0, false
	}
	seq, prev, checksum, err := skim(bytes.Trim(line, "\n"))
	if err != nil {
		return rec, 0, false
	}
	rec = Journaled{
		Seq: seq, At: Position{File: f[1], Offset: offset, Seq: seq - 1, Checksum: prev},
		bytes: line, prev: prev, sum: checksum,
	}
	if f[4] != "-" {
		rec.Payload = Payload{f[4], content}
	}
	n = len(first) + 1 + length + size
	return rec, (n + journalBlock - 1) / journalBlock * journalBlock, true
}

// journaled is what stands in a journal.
type journaled struct {
	base    Position // up to which all is on disk without it
	records []Journaled
	end     Position // up to which base and records reach
}

// parseJournal takes the records that stand in a journal, up to where the chain
// breaks: what stands behind was of an earlier use of the file, or was never
// flushed. nil where there is no base.
func parseJournal(data []byte) *journaled {
	base, ok := parseBase(data)
	if !ok {
		return nil
	}
	j := &journaled{base: base, end: base}
	for data = data[min(len(data), journalBlock):]; len(data) > 0; {
		rec, n, ok := parseJournaled(data)
		if !ok || rec.prev != j.end.Checksum || rec.Seq != j.end.Seq+1 {
			break
		}
		j.records = append(j.records, rec)
		j.end = Position{File: rec.At.File, Offset: rec.At.Offset + int64(len(rec.bytes)), Seq: rec.Seq, Checksum: rec.sum}
		data = data[min(n, len(data)):]
	}
	return j
}
