package agents

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/schemas"
)

const (
	maxMemory = 1 << 20 // bytes of stdout kept in memory; what follows goes to a file
	maxOutput = 8 << 20 // bytes of stdout kept at all; what has more to say writes artifacts
)

// output keeps what a command writes to stdout. It takes everything, so that no
// command is stopped by a full pipe or a broken one.
type output struct {
	dir   string                   // for the file
	heard func()                   // called for everything that comes
	text  bool                     // the result is text, whatever it looks like
	hide  func(text string) string // takes secrets out of what is cut

	memory bytes.Buffer
	file   *os.File // without a name; nil while memory is enough
	size   int64    // of both
	cut    int64    // bytes that were not kept
	failed error    // of the file
}

// Write never fails.
func (o *output) Write(p []byte) (int, error) {
	o.heard()
	keep := p[:min(int64(len(p)), maxOutput-o.size)]
	o.cut += int64(len(p) - len(keep))
	if o.failed == nil && len(keep) > 0 {
		o.failed = o.put(keep)
	}
	return len(p), nil
}

func (o *output) put(p []byte) (err error) {
	o.size += int64(len(p))
	if o.size <= maxMemory {
		o.memory.Write(p)
		return nil
	}
	if o.file == nil {
		if o.file, err = os.CreateTemp(o.dir, ".output-*"); err != nil {
			return err
		}
		if err = os.Remove(o.file.Name()); err != nil {
			return err
		}
	}
	_, err = o.file.Write(p)
	return err
}

// value is the result: JSON if it is strict JSON that fits into a task, else
// text; nil for nothing.
func (o *output) value() (jsontext.Value, error) {
	data, err := o.all()
	if err != nil {
		return nil, err
	}
	cut := o.cut
	if o.size == maxOutput {
		whole := len(data)
		data = []byte(withoutBegun(o.hide, string(data)))
		cut += int64(whole - len(data))
	}
	data = bytes.TrimRight(data, "\r\n")
	if len(data) == 0 {
		return nil, nil
	}
	if cut > 0 {
		data = fmt.Appendf(data, "\n[mbox: %d bytes more were not kept]", cut)
	}
	if o.text {
		return asText(data)
	}
	return asValue(data)
}

// asValue is data as a result.
func asValue(data []byte) (jsontext.Value, error) {
	if v := asJSON(data); v != nil {
		return v, nil
	}
	return asText(data)
}

func asText(data []byte) (jsontext.Value, error) {
	if !utf8.Valid(data) {
		data = bytes.ToValidUTF8(data, []byte("\uFFFD"))
	}
	return jsontext.AppendQuote(nil, data)
}

func (o *output) all() ([]byte, error) {
	if o.failed != nil {
		return nil, fmt.Errorf("stdout could not be kept: %w", o.failed)
	}
	if o.file == nil {
		return o.memory.Bytes(), nil
	}
	if _, err := o.file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	data := make([]byte, o.size)
	n := copy(data, o.memory.Bytes())
	_, err := io.ReadFull(o.file, data[n:])
	return data, err
}

// sentence is all of the output if it is one short line, else "".
func (o *output) sentence() string {
	if o.size > maxMemory {
		return ""
	}
	text := strings.TrimSpace(o.memory.String())
	if len(text) > maxRemark || strings.Contains(text, "\n") {
		return ""
	}
	return text
}

func (o *output) close() {
	if o.file != nil {
		o.file.Close()
	}
}

// asJSON is data if it is strict JSON, else nil. In a task file it will lie two
// levels deep, and is judged there.
func asJSON(data []byte) jsontext.Value {
	var alone jsontext.Value
	if schemas.Decode(data, &alone) != nil {
		return nil
	}
	var inside [][]jsontext.Value
	if schemas.Decode(fmt.Appendf(nil, "[[%s]]", data), &inside) != nil {
		return nil
	}
	return alone
}
