package chat

import (
	"slices"
	"strings"
)

// Session is the source.session of a task that came from a conversation:
//
//	agent:<to>:<bridge>:direct|group:<peer>[:thread:<id>]
//
// It is the form of OpenClaw's session keys with a channel. Upper and lower case
// stay as they are, "%" is written %25 and ":" %3A.
func Session(to, bridge string, c Conversation) string {
	kind := "direct"
	if c.Group {
		kind = "group"
	}
	parts := []string{"agent", to, bridge, kind, c.Peer}
	if c.Thread != "" {
		parts = append(parts, "thread", c.Thread)
	}
	for i, p := range parts {
		parts[i] = escape(p)
	}
	return strings.Join(parts, ":")
}

// ParseSession is the way back. It takes dm for direct, too, as older keys have
// it. ok is false for what names no conversation of a bridge.
func ParseSession(session string) (to, bridge string, c Conversation, ok bool) {
	parts := strings.Split(session, ":")
	for i, p := range parts {
		if parts[i], ok = unescape(p); !ok || p == "" {
			return "", "", Conversation{}, false
		}
	}
	threaded := len(parts) == 7 && parts[5] == "thread"
	if len(parts) != 5 && !threaded || parts[0] != "agent" || !slices.Contains([]string{"direct", "dm", "group"}, parts[3]) {
		return "", "", Conversation{}, false
	}
	c = Conversation{Peer: parts[4], Group: parts[3] == "group"}
	if threaded {
		c.Thread = parts[6]
	}
	return parts[1], parts[2], c, true
}

func escape(part string) string {
	return strings.ReplaceAll(strings.ReplaceAll(part, "%", "%25"), ":", "%3A")
}

// unescape is the way back; ok is false where a "%" stands for nothing.
func unescape(part string) (string, bool) {
	text, codes := part, 0
	for _, code := range []struct{ text, means string }{{"%3A", ":"}, {"%3a", ":"}, {"%25", "%"}} {
		codes += strings.Count(part, code.text)
		text = strings.ReplaceAll(text, code.text, code.means)
	}
	return text, codes == strings.Count(part, "%")
}
