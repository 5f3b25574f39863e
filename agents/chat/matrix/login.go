package matrix

import (
	"context"
	"fmt"
	"net/http"

	"mbox/agents/chat"
)

// login is who we are to the server.
type login struct {
	User   string `json:"user_id"`
	Token  string `json:"access_token"`
	Device string `json:"device_id"`
}

// enter logs in, if we are not.
func (c *channel) enter(ctx context.Context) (login, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.who.User != "" {
		return c.who, nil
	}
	who, err := c.whoami(ctx)
	if err != nil {
		return login{}, err
	}
	if len(who.User) < 2 || who.User[0] != '@' || who.Token == "" {
		return login{}, fmt.Errorf("%s: does not say who we are", c.server.Host())
	}
	c.who = who
	return who, nil
}

func (c *channel) whoami(ctx context.Context) (who login, err error) {
	if c.Password != "" {
		return c.logIn(ctx)
	}
	err = c.do(ctx, c.Token, get(nil, "account", "whoami"), &who)
	if who.Token = c.Token; err == nil && c.User != "" && c.User != who.User {
		err = fmt.Errorf("user is %q, and the token is of %.*q: %w", c.User, maxID, who.User, chat.ErrSetup)
	}
	return who, err
}

func (c *channel) logIn(ctx context.Context) (who login, err error) {
	type identifier struct {
		Type string `json:"type"`
		User string `json:"user"`
	}
	err = c.do(ctx, "", ask{method: http.MethodPost, path: client("login"), in: struct {
		Type       string     `json:"type"`
		Identifier identifier `json:"identifier"`
		Password   string     `json:"password"`
		Device     string     `json:"device_id,omitzero"`
		Name       string     `json:"initial_device_display_name"`
	}{"m.login.password", identifier{"m.id.user", c.User}, c.Password, c.device, "mbox bridge"}}, &who)
	if says(err, "M_FORBIDDEN", "M_UNKNOWN", "M_UNRECOGNIZED", "M_INVALID_USERNAME") {
		err = fmt.Errorf("log in as %q: %w: %w", c.User, err, chat.ErrSetup)
	}
	return who, err
}

// logout ends a login, if there is one.
func (c *channel) logout(ctx context.Context) error {
	c.mu.Lock()
	token := c.who.Token
	c.who = login{}
	c.mu.Unlock()
	if token == "" {
		return nil
	}
	return c.do(ctx, token, ask{method: http.MethodPost, path: client("logout"), in: struct{}{}}, nil)
}
