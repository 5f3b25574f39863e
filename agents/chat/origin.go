package chat

import (
	"mbox/mailbox"
	"mbox/schemas"
)

// origin is what a task keeps of its message beside source, for the answer: its labels.
type origin struct {
	Message string `json:"message"`          // its ID
	Subject string `json:"subject,omitzero"` // its title, where the channel has such a thing
}

// Origin tells the ID and the title of the message that a task was made of; "" for
// what is not known.
func Origin(t *mailbox.Task) (message, subject string) {
	var o origin
	if len(t.Mbox.Labels) == 0 || schemas.Decode(t.Mbox.Labels, &o) != nil {
		return "", ""
	}
	return o.Message, o.Subject
}
