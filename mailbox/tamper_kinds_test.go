package mailbox

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// named is where verify has to see a fault first: at one of these seqs.
type named struct {
	file string
	line int // 0: any
	seqs []int64
}

// at is the place of a line as verify names it; past is a line behind the end of
// its file, which is the first of the next.
func (v *vandal) at(l lineAt, seqs ...int64) named {
	for l.index >= len(v.ledger()[l.day]) && l.day < len(v.days)-1 {
		l.day, l.index = l.day+1, 0
	}
	return named{v.days[l.day], l.index + 1, seqs}
}

// ends tells whether a line is the ledger's last.
func (v *vandal) ends(l lineAt) bool {
	return l.day == len(v.days)-1 && l.index == len(v.ledger()[l.day])-1
}

// byteOf changes one byte of the ledger, and says in which line.
func (v *vandal) byteOf(change func(line []byte, at int) []byte) named {
	l := v.anyLine()
	line := []byte(v.ledger()[l.day][l.index])
	line = change(line, v.r.IntN(len(line)))
	v.edit(l.day, func(lines []string) []string { lines[l.index] = string(line); return lines })
	return v.at(l, l.seq)
}

// taskFile picks a task's file and its last seq.
func (v *vandal) taskFile(prefixes ...string) (file string, id ID, seq int64) {
	file = pick(v, slices.DeleteFunc(v.files(prefixes...), func(f string) bool { return !strings.HasSuffix(f, ".json") }))
	id = ID(strings.TrimSuffix(filepath.Base(file), ".json"))
	return file, id, v.last(id)
}

var taskFolders = []string{"tasks/pending/", "tasks/in-progress/", "tasks/completed/", "tasks/failed/", "tasks/archive/"}

// kinds are the kinds of damage that a chain shows. Each does its damage
// somewhere and says where verify has to name it.
var kinds = []struct {
	name string
	do   func(v *vandal) named
}{
	{"flip a bit", func(v *vandal) named {
		return v.byteOf(func(line []byte, at int) []byte { line[at] ^= 1 << v.r.IntN(8); return line })
	}},
	{"insert a byte", func(v *vandal) named {
		return v.byteOf(func(line []byte, at int) []byte { return slices.Insert(line, at, byte(v.r.IntN(256))) })
	}},
	{"delete a byte", func(v *vandal) named {
		return v.byteOf(func(line []byte, at int) []byte { return slices.Delete(line, at, at+1) })
	}},
	{"zero a range", func(v *vandal) named {
		return v.byteOf(func(line []byte, at int) []byte { clear(line[at : at+min(len(line)-at, 40)]); return line })
	}},
	{"insert a line of junk", func(v *vandal) named {
		l := v.anyLine()
		v.edit(l.day, func(lines []string) []string { return slices.Insert(lines, l.index, "{\"junk\":true}\n") })
		return v.at(l, l.seq)
	}},
	{"insert a line from elsewhere", func(v *vandal) named {
		l, from := v.anyLine(), v.anyLine()
		for from.seq == l.seq {
			from = v.anyLine()
		}
		text := v.ledger()[from.day][from.index]
		v.edit(l.day, func(lines []string) []string { return slices.Insert(lines, l.index, text) })
		return v.at(l, from.seq)
	}},
	{"delete a line", func(v *vandal) named {
		l := v.anyLine()
		v.edit(l.day, func(lines []string) []string { return slices.Delete(lines, l.index, l.index+1) })
		return v.at(l, l.seq, l.seq+1)
	}},
	{"swap two lines", func(v *vandal) named {
		a, b := v.anyLine(), v.anyLine()
		for a.seq == b.seq {
			b = v.anyLine()
		}
		if a.seq > b.seq {
			a, b = b, a
		}
		texts := v.ledger()
		one, two := texts[a.day][a.index], texts[b.day][b.index]
		v.edit(a.day, func(lines []string) []string { lines[a.index] = two; return lines })
		v.edit(b.day, func(lines []string) []string { lines[b.index] = one; return lines })
		return v.at(a, a.seq, b.seq)
	}},
	{"duplicate a line", func(v *vandal) named {
		l := v.anyLine()
		v.edit(l.day, func(lines []string) []string { return slices.Insert(lines, l.index, lines[l.index]) })
		l.index++
		return v.at(l, l.seq)
	}},
	{"cut the tail at a line", func(v *vandal) named {
		l := v.anyLine()
		v.edit(l.day, func(lines []string) []string { return lines[:l.index] })
		return v.at(l, l.seq, v.first(l.day+1))
	}},
	{"cut the tail in a line", func(v *vandal) named {
		l := v.anyLine()
		v.edit(l.day, func(lines []string) []string {
			return append(lines[:l.index:l.index], lines[l.index][:1+v.r.IntN(len(lines[l.index])-1)])
		})
		return v.at(l, l.seq)
	}},
	{"a line edited, its checksum made anew", func(v *vandal) named {
		l := v.anyLine()
		v.edit(l.day, func(lines []string) []string {
			body := lines[l.index][:len(lines[l.index])-87] + "}"
			body = strings.Replace(body, `{"action":"`, `{"action":"x`, 1)
			lines[l.index] = body[:len(body)-1] + `,"checksum":"` + audit.Hash([]byte(body)) + "\"}\n"
			return lines
		})
		if v.ends(l) {
			return v.at(l, l.seq) // the head record knows another
		}
		l.index++
		return v.at(l, l.seq+1)
	}},
	{"a day lost", func(v *vandal) named {
		day := v.r.IntN(len(v.days))
		v.must(os.Remove(v.path(v.days[day])))
		if day == len(v.days)-1 {
			return named{v.days[day], 0, []int64{v.first(day)}}
		}
		return named{v.days[day+1], 1, []int64{v.first(day + 1)}}
	}},
	{"a day renamed", func(v *vandal) named {
		day := v.r.IntN(len(v.days) - 1)
		to := pick(v, []string{"2026-03-01", "2027-01-01"})
		v.mv(v.days[day], "audit/shared/"+to+".jsonl")
		return named{v.days[day+1], 1, []int64{v.first(day + 1)}}
	}},
	{"a day renamed to no day", func(v *vandal) named {
		day := v.r.IntN(len(v.days) - 1)
		v.mv(v.days[day], strings.TrimSuffix(v.days[day], "l"))
		return named{v.days[day+1], 1, []int64{v.first(day + 1)}}
	}},
	{"two days swapped", func(v *vandal) named {
		a := v.r.IntN(len(v.days) - 1)
		b := a + 1 + v.r.IntN(len(v.days)-a-1)
		one, two := v.read(v.days[a]), v.read(v.days[b])
		v.write(v.days[a], two)
		v.write(v.days[b], one)
		return named{v.days[a], 1, []int64{v.first(b), v.first(a)}}
	}},
	{"another mailbox's day", func(v *vandal) named {
		day := v.r.IntN(len(v.days))
		v.write(v.days[day], v.other)
		return named{v.days[day], 1, nil}
	}},
	{"another mailbox's line", func(v *vandal) named {
		l := v.anyLine()
		text := pick(v, slices.Collect(strings.Lines(v.other)))
		v.edit(l.day, func(lines []string) []string { lines[l.index] = text; return lines })
		return v.at(l)
	}},
	{"a task edited", func(v *vandal) named {
		file, _, seq := v.taskFile(taskFolders...)
		text := []byte(v.read(file))
		text[v.r.IntN(len(text))] ^= 1 << v.r.IntN(8)
		v.write(file, string(text))
		return named{file, 0, []int64{seq}}
	}},
	{"a task cut", func(v *vandal) named {
		file, _, seq := v.taskFile(taskFolders...)
		text := v.read(file)
		v.write(file, text[:v.r.IntN(len(text))])
		return named{file, 0, []int64{seq}}
	}},
	{"a status moved by hand", func(v *vandal) named {
		file, _, seq := v.taskFile(taskFolders...)
		to := file
		for filepath.Dir(to) == filepath.Dir(file) {
			to = filepath.Join(pick(v, taskFolders[:4]), filepath.Base(file))
		}
		v.mv(file, to)
		return named{to, 0, []int64{seq}}
	}},
	{"a task under another's name", func(v *vandal) named {
		file, _, seq := v.taskFile(taskFolders...)
		v.mv(file, filepath.Join(filepath.Dir(file), "alias.json"))
		return named{file, 0, []int64{seq}}
	}},
	{"a byte of an artifact", func(v *vandal) named {
		file := pick(v, slices.DeleteFunc(v.files("tasks/artifacts/", "tasks/archive/"), func(f string) bool { return strings.HasSuffix(f, ".json") }))
		id, _, _ := task.AttemptOf(filepath.Base(filepath.Dir(file)))
		data := []byte(v.read(file))
		data[v.r.IntN(len(data))] ^= 1 << v.r.IntN(8)
		v.write(file, string(data))
		return named{file, 0, []int64{v.last(id)}}
	}},
	{"a task removed", func(v *vandal) named {
		file, _, seq := v.taskFile(taskFolders...)
		v.must(os.Remove(v.path(file)))
		return named{file, 0, []int64{seq}}
	}},
	{"a second file of an id", func(v *vandal) named {
		file, _, seq := v.taskFile(taskFolders...)
		to := file
		for to == file {
			name := filepath.Base(file)
			if v.r.IntN(2) == 0 {
				name = strings.ToUpper(strings.TrimSuffix(name, ".json")) + ".json"
			}
			to = filepath.Join(pick(v, taskFolders[1:4]), name)
		}
		v.write(to, v.read(file))
		return named{to, 0, []int64{seq}}
	}},
	{"a task that no line knows", func(v *vandal) named {
		file, id, _ := v.taskFile("tasks/completed/", "tasks/failed/")
		to := filepath.Join(filepath.Dir(file), "alien.json")
		v.write(to, strings.ReplaceAll(v.read(file), string(id), "alien"))
		return named{to, 0, []int64{0}}
	}},
	{"the archive removed", func(v *vandal) named {
		file, _, seq := v.taskFile("tasks/archive/")
		v.must(os.RemoveAll(v.path(filepath.Dir(file))))
		return named{file, 0, []int64{seq}}
	}},
	{"a symlink put in", func(v *vandal) named {
		file, _, seq := v.taskFile(taskFolders...)
		v.mv(file, "elsewhere.json")
		v.must(os.Symlink(v.path("elsewhere.json"), v.path(file)))
		return named{file, 0, []int64{seq}}
	}},
	{"a mode changed", func(v *vandal) named {
		name := pick(v, v.files("tasks/completed/", "tasks/failed/", "tasks/archive/", "audit/", "decisions/", "changes/", ".mbox/"))
		v.must(os.Chmod(v.path(name), pick(v, []fs.FileMode{0o644, 0o660, 0o700, 0o400})))
		return named{name, 0, []int64{0}}
	}},
	{"a record edited", func(v *vandal) named {
		file := pick(v, v.files("decisions/", "changes/"))
		text := []byte(v.read(file))
		text[v.r.IntN(len(text))] ^= 1 << v.r.IntN(8)
		v.write(file, string(text))
		return named{file, 0, []int64{v.recordSeq(file)}}
	}},
	{"a record removed", func(v *vandal) named {
		file := pick(v, v.files("decisions/", "changes/"))
		v.must(os.Remove(v.path(file)))
		return named{file, 0, []int64{v.recordSeq(file)}}
	}},
	{"a quarantine entry removed", func(v *vandal) named {
		entry := v.anyEntry()
		v.must(os.Remove(v.path(entry)))
		if v.r.IntN(2) == 0 {
			v.must(os.Remove(v.path(entry + home.ReasonSuffix)))
		}
		return named{entry, 0, []int64{v.entrySeq(entry)}}
	}},
	{"a quarantine entry edited", func(v *vandal) named {
		entry := v.anyEntry()
		v.write(entry, v.read(entry)+"x")
		return named{entry, 0, []int64{v.entrySeq(entry)}}
	}},
	{"a reason edited", func(v *vandal) named {
		entry := v.anyEntry()
		text := []byte(v.read(entry + home.ReasonSuffix))
		text[v.r.IntN(len(text))] ^= 1 << v.r.IntN(8)
		v.write(entry+home.ReasonSuffix, string(text))
		return named{entry + home.ReasonSuffix, 0, []int64{v.entrySeq(entry)}}
	}},
	{"a reason removed", func(v *vandal) named {
		entry := v.anyEntry()
		v.must(os.Remove(v.path(entry + home.ReasonSuffix)))
		return named{entry + home.ReasonSuffix, 0, []int64{v.entrySeq(entry)}}
	}},
	{"an agent's copy edited", func(v *vandal) named {
		file := pick(v, v.copies())
		text := []byte(v.read(file))
		at := v.r.IntN(len(text))
		line := 1 + bytes.Count(text[:at], []byte("\n"))
		text[at] ^= 1 << v.r.IntN(8)
		v.write(file, string(text))
		return named{file, line, []int64{0}}
	}},
	{"an agent's copy cut", func(v *vandal) named {
		file := pick(v, v.copies())
		text := v.read(file)
		at := v.r.IntN(len(text))
		v.write(file, text[:at])
		return named{file, 1 + strings.Count(text[:at], "\n"), []int64{0}}
	}},
	{"an agent's copy removed", func(v *vandal) named {
		file := pick(v, v.copies())
		v.must(os.Remove(v.path(file)))
		return named{file, 0, []int64{0}}
	}},
	{"a lease planted", func(v *vandal) named {
		_, id, seq := v.taskFile(taskFolders...)
		lease := fmt.Sprintf(".mbox/leases/%s.%032x", id, v.r.Uint64())
		// Of a process that lives: what a dead one left is a claim that was interrupted.
		boot, err := durable.BootID()
		v.must(err)
		note, err := schemas.Canonical(home.Note{PID: os.Getpid(), Start: home.StartTime(os.Getpid()), Boot: boot, Namespace: home.PIDNamespace()})
		v.must(err)
		v.write(lease, string(note)+"\n")
		return named{lease, 0, []int64{seq}}
	}},
	{"a staged file planted", func(v *vandal) named {
		file, id, _ := v.taskFile(taskFolders...)
		staged := fmt.Sprintf(".mbox/tmp/%s~%032x", id, v.r.Uint64())
		v.write(staged, v.read(file))
		return named{staged, 0, []int64{0}}
	}},
}
