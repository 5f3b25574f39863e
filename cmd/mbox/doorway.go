package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"

	"mbox/cmd/mbox/config"
	"mbox/cmd/mbox/gateway"
	"mbox/cmd/mbox/gateway/token"
	"mbox/cmd/mbox/mcp"
	"mbox/mailbox"
)

// doorway is where a process listens: one door, behind which one mailbox after the
// other may stand.
type doorway struct {
	config.Listener
	door  *gateway.Door
	url   string
	stop  context.CancelFunc
	ended sync.WaitGroup
}

// listen opens a doorway. Where it cannot go on it calls failed.
func listen(ctx context.Context, s *session, failed func(error)) (*doorway, error) {
	d := &doorway{Listener: s.config.Listener()}
	home, err := s.homeDir()
	if err != nil {
		return nil, err
	}
	secure, err := d.TLS()
	if err != nil {
		return nil, err
	}
	l, url, err := gateway.Listen(d.Address, secure)
	if err != nil {
		return nil, fmt.Errorf("serve.address: %w", err)
	}
	d.url = url
	d.door = gateway.New(gateway.Options{
		Tokens: token.Open(home).Find, Judge: s.judged, Address: d.Address, Loopback: d.Loopback(), MaxBody: d.MaxBody, Log: s.logger(), Version: thisVersion().Version,
		MCP: func(box *mailbox.Box, agent string, reads bool) http.Handler {
			return mcp.New(mcp.Options{Box: box, Agent: agent, Reader: reads, Version: thisVersion().Version, Hint: s.hint}).Handler()
		},
	})
	if d.Insecure {
		s.warnf("%s is no loopback address and has no TLS: whoever is on the way reads tokens and tasks", d.Address)
	}
	ctx, d.stop = context.WithCancel(context.WithoutCancel(ctx))
	d.ended.Go(func() {
		if err := d.door.Serve(ctx, l); err != nil && !errors.Is(err, net.ErrClosed) {
			failed(fmt.Errorf("%s: %w", d.url, err))
		}
	})
	return d, nil
}

// close ends what is being answered, and lets go of the address.
func (d *doorway) close() {
	d.stop()
	d.ended.Wait()
	d.door.Use(nil)
}

// opened lets requests in to a service's mailbox, and none any more to that of the
// service before, which it waits for. A service without a table [serve] has no door.
// Where the first one's cannot be opened, everything ends; a later one's is told.
func (c *crew) opened(ctx context.Context, v *service) {
	err := c.open(ctx, v)
	switch {
	case err == nil:
	case v.was == nil:
		c.note(err)
		c.stop()
	default:
		v.warnf("%v; mbox.toml is read again when it changes, or on SIGHUP", err)
	}
}

func (c *crew) open(ctx context.Context, v *service) error {
	l := v.config.Listener()
	if !c.serves && !l.Up || c.doorway != nil && c.doorway.Listener != l && c.doorway.Address == l.Address {
		c.shut()
	}
	var err error
	if (c.serves || l.Up) && (c.doorway == nil || c.doorway.Listener != l) {
		err = c.replace(ctx, v)
	}
	if c.doorway == nil {
		return err
	}
	last := c.behind
	v.working.Add(1)
	c.behind = v
	c.doorway.door.Use(&gateway.Mailbox{Box: v.box, Agents: v.team.Members, Problems: health(v)})
	if last != nil {
		last.working.Done()
	}
	if err != nil {
		return fmt.Errorf("%w; the door stays at %s", err, c.doorway.url)
	}
	return nil
}

// replace opens the door that the service wants, and then closes the one there is.
func (c *crew) replace(ctx context.Context, v *service) error {
	d, err := listen(ctx, v.session, func(err error) { c.note(err); c.stop() })
	if err != nil {
		return err
	}
	c.shut()
	c.doorway = d
	fmt.Fprintf(v.err, "mbox: serving %s, pid %d, home %s\n", d.url, os.Getpid(), clean(v.box.Home(), maxLine))
	v.invite(ctx, d)
	return nil
}

// invite prints a link by which one browser logs in, once. It is for who sits at the
// terminal: nothing else may keep it, and no agent's command gets one.
func (v *service) invite(ctx context.Context, d *doorway) {
	if !v.people || keeping.byPerson() != nil || keeping.byNoWorker(ctx, v.box) != nil {
		return
	}
	fmt.Fprintf(v.err, "mbox: to log in, once and within 10 minutes: %s\n", d.door.LoginLink(d.named()))
}

// named is the door's URL by a name that a browser can use.
func (d *doorway) named() string {
	scheme, address, _ := strings.Cut(d.url, "://")
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return scheme + "://" + net.JoinHostPort("localhost", port)
	}
	return d.url
}

// shut closes the door.
func (c *crew) shut() {
	if c.doorway == nil {
		return
	}
	c.doorway.close()
	c.doorway = nil
	if c.behind != nil {
		c.behind.working.Done()
		c.behind = nil
	}
}
