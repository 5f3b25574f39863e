package chat

import (
	"context"
	"fmt"
	"io"
	"strings"

	"mbox/mailbox"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// repetition begins the text of a notice that may be there already.
const repetition = "(may be a repetition)"

// compose is what is said of a task that has ended: the messages, and where they
// cannot hold it all a file for the last of them. What neither holds is cut off, and
// says how to see the rest. Each message leaves room for [repeated].
func compose(t *mailbox.Task, l Limits) (parts []string, file *File) {
	text := tell(t)
	parts = cutFor(text, l, repetition)
	if len(parts) <= max(l.Parts, 1) {
		return parts, nil
	}
	if size := int64(len(text)); size <= l.File {
		return ending(text, l, "… all of it is in the file"), &File{
			Name: string(t.ID) + ".txt", Type: "text/plain; charset=utf-8", Size: size,
			Open: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil },
		}
	}
	parts = parts[:max(l.Parts, 1)]
	last := len(parts) - 1
	return append(parts[:last], ending(parts[last], l, fmt.Sprintf("… cut off; mbox show %s", t.ID))...), nil
}

// ending cuts a text to one message that ends with a remark.
func ending(text string, l Limits, remark string) []string {
	return []string{cutFor(text, l, repetition+"\n"+remark)[0] + between(l) + remark}
}

// cutFor cuts a text into messages that leave room for the lines of a remark.
func cutFor(text string, l Limits, remark string) []string {
	if l.Text > 0 {
		l.Text = max(1, l.Text-len(remark)-2)
	}
	if l.Lines > 0 {
		l.Lines = max(1, l.Lines-strings.Count(remark, "\n")-1)
	}
	return cut(text, l.Text, l.Lines)
}

// between is what stands between a message's text and a remark.
func between(l Limits) string {
	if l.Lines > 0 && l.Lines < 4 {
		return " "
	}
	return "\n"
}

// repeated marks a text that may be there already.
func repeated(text string, l Limits) string { return repetition + between(l) + text }

// tell is the result in words.
func tell(t *mailbox.Task) string {
	var text strings.Builder
	switch r := &t.Result; {
	case r.Status == mailbox.Completed:
		text.WriteString(strings.Trim(Plain(task.Text(r.Output)), "\n"))
	case r.Error != nil && r.Error.Code == "cancelled":
		fmt.Fprintf(&text, "%s was cancelled%s", t.ID, because(r.Error.Message))
	case r.Error != nil:
		fmt.Fprintf(&text, "%s has failed (%s)%s", t.ID, line(Plain(r.Error.Code)), because(r.Error.Message))
	default:
		fmt.Fprintf(&text, "%s has failed", t.ID)
	}
	if blank(text.String()) {
		text.Reset()
		fmt.Fprintf(&text, "%s is done.", t.ID)
	}
	for i, a := range t.Result.Artifacts {
		if i == 0 {
			text.WriteString("\n")
		}
		fmt.Fprintf(&text, "\n%s (%s)", line(Plain(a.Path)), schemas.Size(uint64(a.Size)))
	}
	return text.String()
}

func because(message string) string {
	if message = line(Plain(message)); message == "" {
		return ""
	}
	return ": " + schemas.Sentence(message, task.MaxReason)
}
