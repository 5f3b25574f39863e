package chat

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"mbox/mailbox"
	"mbox/mailbox/task"
	"mbox/schemas"
)

const (
	maxAttached = 64 << 20         // bytes of all files of a message
	attachTime  = 10 * time.Minute // that fetching them may take
)

// fetch reads what came with a message, as far as the rules let it. left says of each
// file that was left out why, for the sender: he learns nothing else of the error.
func (i *inbox) fetch(ctx context.Context, m *Message) (files []mailbox.File, left []string, err error) {
	limited, cancel := context.WithTimeout(ctx, attachTime)
	defer cancel()
	room := int64(maxAttached)
	for n := range m.Files {
		f := &m.Files[n]
		name := task.AttachmentName(f.Name)
		if n >= i.Rules.MaxAttachments {
			left = append(left, fmt.Sprintf("%d more: at most %d are taken", len(m.Files)-n, i.Rules.MaxAttachments))
			break
		}
		most := min(i.Rules.MaxAttachment, room)
		data, err := f.read(limited, most)
		switch {
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case err != nil:
			i.Log("the file %s of a message of %s cannot be fetched: %v", schemas.Quote(name), schemas.Quote(m.From), err)
			left = append(left, name+": it could not be fetched")
		case data == nil:
			left = append(left, fmt.Sprintf("%s: it is larger than %s", name, schemas.Size(uint64(most))))
		default:
			room -= int64(len(data))
			files = append(files, mailbox.File{Name: name, Data: data})
		}
	}
	return files, left, nil
}

// read fetches a file; nil if it has more than most bytes.
func (f *File) read(ctx context.Context, most int64) (data []byte, err error) {
	if f.Size > most {
		return nil, nil
	}
	err = caught(func() error {
		r, err := f.Open(ctx)
		if err != nil {
			return err
		}
		defer r.Close()
		stop := context.AfterFunc(ctx, func() { r.Close() })
		defer stop()
		data, err = io.ReadAll(io.LimitReader(r, most+1))
		return err
	})
	if err != nil || int64(len(data)) > most {
		return nil, err
	}
	return data, nil
}

// leftOut is what the task says of files that are not with it.
func leftOut(left []string) string {
	return "[Files of this message that are not here: " + strings.Join(left, "; ") + "]"
}
