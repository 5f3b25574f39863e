package slack

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"mbox/agents/chat"
	"mbox/agents/chat/web"
)

const (
	callTime  = 30 * time.Second
	maxAnswer = 8 << 20
)

// fault is what the server says where it does not do what it was asked for.
type fault struct {
	method, code string
}

func (e *fault) Error() string { return fmt.Sprintf("%s: Slack answers %.64q", e.method, e.code) }

// What a person has to mend, and what no repetition does.
var (
	setup = []string{
		"invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired", "no_permission", "missing_scope",
		"not_allowed_token_type", "team_access_not_granted", "access_denied", "org_login_required", "ekm_access_denied",
	}
	refused = []string{
		"channel_not_found", "not_in_channel", "is_archived", "msg_too_long", "no_text", "restricted_action", "restricted_action_thread_only_channel",
		"restricted_action_read_only_channel", "restricted_action_non_threadable_channel", "user_not_found", "users_not_found", "user_disabled",
		"cannot_dm_bot", "user_not_visible", "thread_not_found", "thread_locked", "messages_tab_disabled", "invalid_arguments", "metadata_too_large",
	}
)

// Is sorts what the server says.
func (e *fault) Is(target error) bool {
	return target == chat.ErrSetup && slices.Contains(setup, e.code) || target == chat.ErrRefused && slices.Contains(refused, e.code)
}

// call calls a method of the Web API. Fields go as a form: the methods that read take
// no JSON.
func (c *channel) call(ctx context.Context, token, method string, fields map[string]string, out any) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	form := url.Values{}
	for name, value := range fields {
		if value != "" {
			form.Set(name, value)
		}
	}
	r := c.server.Request(ctx, http.MethodPost, []byte(form.Encode()), "api", method)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := c.server.Do(r)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	defer answer.Body.Close()
	return c.judge(method, answer, out)
}

func (c *channel) judge(method string, answer *http.Response, out any) error {
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err != nil {
		return fmt.Errorf("%s: %s: %w", method, c.server.Host(), err)
	}
	var e struct {
		OK    bool   `json:"ok"`
		Error string `json:"error"`
	}
	err = lenient(text, &e)
	switch {
	case answer.StatusCode == http.StatusTooManyRequests || err == nil && (e.Error == "ratelimited" || e.Error == "rate_limited"):
		return &chat.WaitError{For: max(web.Pause(answer), time.Second), Err: &fault{method, "ratelimited"}}
	case len(text) > maxAnswer:
		return fmt.Errorf("%s: %s: an answer of more than %d bytes", method, c.server.Host(), maxAnswer)
	case err != nil || answer.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s: it answers %d, and not as Slack does", method, c.server.Host(), answer.StatusCode)
	case !e.OK:
		return &fault{method, chat.OneLine(e.Error)}
	case out == nil:
		return nil
	}
	if err := lenient(text, out); err != nil {
		return fmt.Errorf("%s: %s: what it answers is not what Slack does", method, c.server.Host())
	}
	return nil
}

// lenient reads what the server hands on of people.
func lenient(data []byte, out any) error {
	return json.Unmarshal(data, out, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}
