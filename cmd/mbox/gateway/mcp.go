package gateway

import (
	"net/http"

	"mbox/cmd/mbox/gateway/token"
)

// client is who comes by MCP: all that have one identity share a server, which
// remembers their claims.
type client struct {
	agent string
	reads bool // and does nothing else
}

// mcpRoutes are the door's to MCP, where there is one. Its streamable HTTP is POST
// alone, since no request depends on another.
func (d *Door) mcpRoutes() []route {
	if d.o.MCP == nil {
		return nil
	}
	return []route{{
		method: "POST", path: "/mcp", agents: true, waits: true, about: "the Model Context Protocol: stateless streamable HTTP",
		takes: map[string]any{}, gives: map[string]any{}, kinds: []string{"text/event-stream"}, do: (*call).mcp,
	}}
}

func (c *call) mcp() error {
	leave, err := c.stay() // one of its tools waits
	if err != nil {
		return err
	}
	defer leave()
	r := c.r.WithContext(c.ctx)
	r.Body = http.MaxBytesReader(c.w, r.Body, c.door.o.MaxBody)
	w := &worded{ResponseWriter: c.w}
	c.mcpFor(client{c.agent, c.role == token.Reader}).ServeHTTP(w, r)
	return w.refused("send one JSON-RPC message, with Content-Type: application/json and Accept: application/json, text/event-stream")
}

// mcpFor is the server of an identity.
func (c *call) mcpFor(who client) http.Handler {
	c.mcpMu.Lock()
	defer c.mcpMu.Unlock()
	if c.clients[who] == nil {
		c.clients[who] = c.door.o.MCP(c.Box, who.agent, who.reads)
	}
	return c.clients[who]
}
