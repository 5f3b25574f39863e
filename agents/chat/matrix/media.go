package matrix

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"sync"
	"time"

	"mbox/agents/chat"
)

// maxFile bounds what goes up and comes down. Servers may take less.
const (
	maxFile  = 10 << 20
	fileTime = 5 * time.Minute
)

type fileInfo struct {
	Type string `json:"mimetype,omitzero"`
	Size int64  `json:"size"`
}

// mxc is the form of the address of a file: mxc://server/id. Both parts go into the
// path of a request.
var mxc = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^mxc://([A-Za-z0-9][A-Za-z0-9.:\[\]-]*)/([A-Za-z0-9_-]+)$`)
})

// file is what a message has with it.
func (c *channel) file(said *content) chat.File {
	info := fileInfo{Size: -1}
	if len(said.Info) == 0 || lenient(said.Info, &info) != nil || info.Size < 0 {
		info.Size = -1
	}
	address := said.URL
	return chat.File{
		Name: cmp.Or(said.Name, said.Body), Type: info.Type, Size: info.Size,
		Open: func(ctx context.Context) (io.ReadCloser, error) { return c.download(ctx, address) },
	}
}

// download reads a file by our own server, whoever's it is; all of it before the
// first byte is given on, so that one that is cut off is an error.
func (c *channel) download(ctx context.Context, address string) (io.ReadCloser, error) {
	parts := mxc().FindStringSubmatch(address)
	if parts == nil || len(address) > 2*maxID {
		return nil, fmt.Errorf("%.*q: no address of a file", maxID, address)
	}
	who, err := c.enter(ctx)
	if err != nil {
		return nil, err
	}
	a := ask{method: http.MethodGet, path: []string{"client", "v1", "media", "download", parts[1], parts[2]}}
	ctx, cancel := context.WithTimeout(ctx, fileTime)
	defer cancel()
	answer, err := c.send(ctx, who.Token, a, nil, "")
	if says(err, "M_UNRECOGNIZED") { // older than 1.11: there files are anybody's who knows the address
		a.path = []string{"media", "v3", "download", parts[1], parts[2]}
		answer, err = c.send(ctx, "", a, nil, "")
	}
	if err != nil {
		return nil, c.judge(who, err)
	}
	defer answer.Body.Close()
	data, err := c.read(answer, maxFile)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

// attach uploads a file and makes it part of a message, whose text becomes its
// caption. One that was uploaded before is uploaded again; only the message is there
// once.
func (c *channel) attach(ctx context.Context, m *message, f *chat.File) error {
	r, err := f.Open(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return err
	}
	if len(data) > maxFile {
		return fmt.Errorf("a file of more than %d bytes: %w", maxFile, chat.ErrRefused)
	}
	who, err := c.enter(ctx)
	if err != nil {
		return err
	}
	kind := cmp.Or(f.Type, "application/octet-stream")
	a := ask{method: http.MethodPost, path: []string{"media", "v3", "upload"}, query: url.Values{"filename": {f.Name}}, time: fileTime}
	var stored struct {
		URL string `json:"content_uri"`
	}
	if err := c.judge(who, c.exchange(ctx, who.Token, a, data, kind, &stored)); err != nil {
		return err
	}
	if !mxc().MatchString(stored.URL) {
		return fmt.Errorf("%s: no address for a file that was sent", c.server.Host())
	}
	m.Type, m.Name, m.URL = "m.file", f.Name, stored.URL
	m.Info = &fileInfo{kind, int64(len(data))}
	m.Body = cmp.Or(m.Body, f.Name)
	return nil
}
