package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	dialogs "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"mbox/mailbox"
	"mbox/mailbox/durable"
)

// chromium is a real browser for the tests; the folder that it keeps ends with them.
func chromium(t *testing.T) context.Context {
	t.Helper()
	if testing.Short() {
		t.Skip("a real browser takes its time")
	}
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("there is no chromium: .ci/need chromium installs it")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Env("TMPDIR="+t.TempDir()), chromedp.UserDataDir(t.TempDir()), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-sync", true), chromedp.CombinedOutput(io.Discard))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 4*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	return ctx
}

// tab is a page in the browser, with what has gone wrong in it.
type tab struct {
	*place
	ctx   context.Context
	url   string // of the server
	mu    sync.Mutex
	wrong []string // guarded by mu
}

// tab is the browser's one tab, on the door of the place.
func (p *place) tab(browser context.Context, server *httptest.Server) *tab {
	p.Helper()
	b := &tab{place: p, ctx: browser, url: server.URL}
	b.run(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, network.Enable, network.EnableParams{})
		if err == nil {
			_, err = cdp.Call(ctx, t, log.Enable, cdp.Empty{})
		}
		return err
	}))
	if err := chromedp.Listen(browser, b.hear); err != nil {
		p.Fatal(err)
	}
	return b
}

// part is a part of the test, that begins with nobody logged in and ends with nothing
// having gone wrong.
func (b *tab) part(t *testing.T, name string, do func(*tab)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		own := &tab{place: &place{TB: t, box: b.box, door: b.door}, ctx: b.ctx, url: b.url}
		own.run(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			_, err := cdp.Call(ctx, t, network.ClearBrowserCookies, cdp.Empty{})
			return err
		}))
		do(own)
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, w := range b.wrong {
			t.Error(w)
		}
		b.wrong = nil
	})
}

// hear takes down what no page of ours does: it fails, asks a person, or another server.
func (b *tab) hear(ev any) {
	wrong := ""
	switch ev := ev.(type) {
	case *runtime.EventExceptionThrown:
		wrong = "exception: " + ev.ExceptionDetails.Text
	case *dialogs.EventJavascriptDialogOpening:
		wrong = "dialog: " + ev.Message
	case *log.EventEntryAdded:
		wrong = fmt.Sprintf("%s: %s %s", ev.Entry.Level, ev.Entry.Text, ev.Entry.URL)
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(ev.Request.URL, b.url) {
			wrong = "it asks " + ev.Request.URL
		}
	}
	if wrong != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.wrong = append(b.wrong, wrong)
	}
}

// run takes steps one after the other. A part that was drawn anew between finding a place
// in it and using it is looked for again: nothing was done in it yet.
func (b *tab) run(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 30*time.Second)
	defer cancel()
	for _, step := range steps {
		err := chromedp.Do(ctx, step)
		for err != nil && strings.Contains(err.Error(), "Could not find node") && ctx.Err() == nil {
			err = chromedp.Do(ctx, step)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// tells evaluates what tells something about the page.
func (b *tab) tells(script string) string {
	b.Helper()
	got, err := chromedp.Run(b.ctx, chromedp.Evaluate[string]("Promise.resolve("+script+").then(String)", chromedp.EvalAwaitPromise))
	if err != nil {
		b.Fatalf("%s: %v", script, err)
	}
	return got
}

// until waits for what a page becomes by itself, or another page in its place.
func (b *tab) until(script string) {
	b.Helper()
	var got bool
	var err error
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		// While a page takes the place of another there is nobody to ask.
		if got, err = chromedp.Run(b.ctx, chromedp.Evaluate[bool]("Boolean("+script+")")); err == nil && got {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	b.Fatalf("%s: %v\n%s", script, err, b.tells("document.body.innerText"))
}

func (b *tab) open(path string) {
	b.Helper()
	b.run(chromedp.Navigate(b.url + path))
}

func (b *tab) login(secret string) {
	b.Helper()
	b.open("/login")
	b.run(chromedp.SetValue(chromedp.CSS("[name=token]"), secret), chromedp.Submit(chromedp.CSS("main form")))
	b.until(`location.pathname === "/" && document.readyState === "complete"`)
}

// shoot keeps a picture of the page, in the folder that MBOX_SHOTS names.
func (b *tab) shoot(name string) {
	dir := os.Getenv("MBOX_SHOTS")
	if dir == "" {
		return
	}
	picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o600)
	}
	if err != nil {
		b.Error(err)
	}
}

func (b *tab) size(width int64, dark bool) {
	b.Helper()
	colour := "light"
	if dark {
		colour = "dark"
	}
	b.run(chromedp.EmulateViewport(width, 900), chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: colour}}})
		return err
	}))
}

func TestBrowser(t *testing.T) {
	browser := chromium(t)
	p := newDesk(t)
	f := p.fill("Hello there")
	b := p.tab(browser, p.listen())
	b.part(t, "looks", func(b *tab) { b.looks(f) })
	b.part(t, "axe", func(b *tab) { b.axe(f) })
	b.part(t, "live", func(b *tab) { b.live() })
	b.part(t, "filter", func(b *tab) { b.filters() })
	b.part(t, "operator", func(b *tab) { b.operates(f) })
	b.part(t, "reader", func(b *tab) { b.onlyReads(f) })
	b.part(t, "keyboard", func(b *tab) { b.byKeyboard() })
	b.part(t, "without scripts", func(b *tab) { b.withoutScripts() })
	b.part(t, "hostile", func(b *tab) { b.hostileTasks() })
}

// looks holds every page against three widths: nothing is wider than the window.
func (b *tab) looks(f full) {
	b.login("o")
	paths := append(b.paths(f), "/send", "/send?like="+string(f.open), "/login")
	shots := os.Getenv("MBOX_SHOTS") != ""
	for _, width := range []int64{360, 800, 1400} {
		for _, dark := range []bool{false, true} {
			b.size(width, dark)
			for i, path := range paths {
				if (dark || strings.Contains(path, "?")) && !shots {
					continue // it is as wide as the other
				}
				b.open(path)
				if over := b.tells("document.documentElement.scrollWidth - document.documentElement.clientWidth"); over != "0" {
					b.Errorf("%s is %s px wider than %d", path, over, width)
				}
				b.shoot(fmt.Sprintf("%04d-%t-%02d%s", width, dark, i, strings.NewReplacer("/", "_", "?", "_", "~", "_").Replace(path)))
			}
		}
	}
}

// axe lets axe-core look for what keeps people out of a page, light and dark.
func (b *tab) axe(f full) {
	path := os.Getenv("AXE")
	if path == "" {
		b.Skip("AXE names no axe-core: AXE=$(.ci/axe) does")
	}
	script, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	b.login("o")
	for rules, dark := range map[string]bool{"{}": false, `{runOnly: ["color-contrast"]}`: true} {
		b.size(800, dark)
		for _, path := range append(b.paths(f), "/send", "/login", "/task/"+string(f.open)+"?said=send") {
			if dark && (strings.Contains(path, "?") || strings.HasPrefix(path, "/task/") && !strings.HasSuffix(path, string(f.held))) {
				continue // it has the colours of another
			}
			b.open(path)
			if found := b.obstacles(string(script), rules); found != "" {
				b.Errorf("%s, dark %t: %s", path, dark, found)
			}
		}
	}
	b.size(360, false)
	b.open("/list?state=pending")
	b.run(chromedp.Click(chromedp.CSS("[name=verb][value=cancel]")))
	b.until(`document.querySelector("h1").textContent.startsWith("Cancel")`)
	b.shoot("confirm")
	if found := b.obstacles(string(script), "{}"); found != "" {
		b.Errorf("the question: %s", found)
	}
}

// obstacles runs axe-core in the page; it tells of what is serious or critical.
func (b *tab) obstacles(script, rules string) string {
	b.run(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := chromedp.Evaluate[chromedp.Void](script)(ctx, t)
		return err
	}))
	return b.tells(`axe.run(` + rules + `).then((r) => r.passes.length === 0 ? "it has looked at nothing" : r.violations.filter((v) => ["serious", "critical"].includes(v.impact)).map((v) => v.id + ": " + v.nodes.map((n) => n.html + " " + n.failureSummary).join("; ")).join("\n"))`)
}

// mark is lost when a page is loaded again.
const mark = "window.mark = 'here'"

// live watches a task move over the board, on a page that is never loaded again, and not
// while nobody looks at it.
func (b *tab) live() {
	b.login("r")
	b.open("/?to=shell")
	b.until(`document.documentElement.dataset.link === "live"`)
	b.tells(mark)
	id := b.sent("o", titled("Watch me", "shell"))
	state := fmt.Sprintf(`(document.querySelector("[data-task='%s']") || {dataset: {}}).dataset.state`, id)
	b.until(state + ` === "pending"`)
	b.until(`document.getElementById("news").textContent.includes("1 pending")`)
	c := b.claim("shell")
	b.until(state + ` === "in-progress"`)
	b.until(`document.querySelector(".moved")`)
	b.hide(true)
	b.until(`document.documentElement.dataset.link === "paused"`)
	if err := c.Complete(b.Context(), mailbox.Result{Output: []byte(`"done"`)}); err != nil {
		b.Fatal(err)
	}
	asked := b.tells("performance.getEntriesByType('resource').length")
	b.tells("new Promise((r) => setTimeout(r, 1500))")
	if now := b.tells("performance.getEntriesByType('resource').length"); now != asked || b.tells(state) != "in-progress" {
		b.Errorf("a hidden page asks: %s requests, then %s", asked, now)
	}
	b.hide(false)
	b.until(state + ` === "completed"`)
	b.until(`document.documentElement.dataset.link === "live"`)
	if b.tells("window.mark") != "here" {
		b.Error("the page was loaded again")
	}
}

// hide says to the page that nobody looks at it, as a browser does.
func (b *tab) hide(yes bool) {
	b.tells(fmt.Sprintf(`(Object.defineProperty(document, "hidden", {configurable: true, value: %t}), document.dispatchEvent(new Event("visibilitychange")))`, yes))
}

// filters hold in the address: over a click, a load and the way back.
func (b *tab) filters() {
	b.login("r")
	b.open("/list")
	b.run(chromedp.SetValue(chromedp.CSS("[name=state]"), "failed"), chromedp.SetValue(chromedp.CSS("[name=q]"), "Hello"), chromedp.Click(chromedp.CSS(".filter button")))
	b.until(`location.search === "?q=Hello&state=failed" && document.readyState === "complete"`)
	rows := `[...document.querySelectorAll("tbody tr")].map((r) => r.dataset.state).join()`
	if got := b.tells(rows); got != "failed,failed" {
		b.Errorf("%s", got)
	}
	b.run(chromedp.Reload())
	if got := b.tells(rows + ` + document.querySelector("[name=state]").value`); got != "failed,failedfailed" {
		b.Errorf("%s", got)
	}
	b.run(chromedp.Click(chromedp.CSS("tbody a")))
	b.until(`location.pathname.startsWith("/task/")`)
	b.run(chromedp.NavigateBack())
	b.until(`location.search === "?q=Hello&state=failed" && ` + rows + ` === "failed,failed"`)
}

// operates approves and cancels as a person does, and logs out.
func (b *tab) operates(f full) {
	b.open(strings.TrimPrefix(b.door.LoginLink(b.url), b.url))
	b.until(`location.pathname === "/" && document.querySelector(".who").innerText.includes("operator")`)
	if got := b.tells("document.cookie"); got != "" {
		b.Errorf("scripts see the cookie: %s", got)
	}
	b.run(chromedp.Click(chromedp.CSS(`nav a[href="/inbox"]`)))
	b.until(`document.querySelector("[name=sha256]")`)
	b.run(chromedp.SendKeys(chromedp.CSS("[name=reason]"), "looked at it"))
	// What is read stays as it is, though something else comes.
	shown := b.tells("document.querySelector('[name=sha256]').value")
	second := b.sent("o", strings.Replace(deploy, "8080", "9090", 1))
	b.until(`document.getElementById("changed")`)
	if b.tells("document.querySelector('[name=reason]').value") != "looked at it" || b.tells("document.querySelectorAll('[name=sha256]').length") != "1" {
		b.Error("a form that somebody fills in was replaced")
	}
	b.run(chromedp.Click(chromedp.CSS("button.main")))
	b.until(`location.search === "?said=approve" && document.querySelector(".said")`)
	w, err := b.box.Why(b.Context(), f.held)
	if err != nil || w.Approve != "" || len(w.Waits) != 0 {
		b.Errorf("%+v, %v", w, err)
	}
	if got := b.ask("o", "GET", "/audit/entries?event=decision", "").Body.String(); !strings.Contains(got, shown[len("sha256:"):]) || !strings.Contains(got, "login link") {
		b.Errorf("the ledger does not tell what was approved: %s", got)
	}
	b.open("/task/" + string(second))
	b.run(chromedp.Click(chromedp.CSS("button.bad")))
	b.until(`location.search === "?said=cancel" && document.querySelector(".failed")`)
	b.run(chromedp.Click(chromedp.CSS(`form[action="/logout"] button`)))
	b.until(`location.pathname === "/login" && !document.querySelector('form[action="/logout"]')`)
	b.run(chromedp.NavigateBack())
	b.until(`document.readyState === "complete"`)
	b.run(chromedp.Reload())
	if got := b.tells(`document.querySelectorAll("main button.main, main button.bad").length`); got != "0" {
		b.Errorf("after the logout there are %s buttons", got)
	}
}

// onlyReads sees no button that would do anything.
func (b *tab) onlyReads(f full) {
	b.login("r")
	for _, path := range b.paths(f) {
		b.open(path)
		if got := b.tells(`document.querySelectorAll("main form[method=post], main a[href^='/send']").length`); got != "0" {
			b.Errorf("%s: a reader sees %s", path, got)
		}
	}
}

// byKeyboard comes to the content with one key and logs in without a mouse.
func (b *tab) byKeyboard() {
	b.open("/login")
	b.run(chromedp.KeyEvent(kb.Tab))
	if got := b.tells("document.activeElement.textContent"); got != "Skip to the content" {
		b.Errorf("the first key leads to %q", got)
	}
	b.run(chromedp.KeyEvent(kb.Enter), chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent("o"), chromedp.KeyEvent(kb.Enter))
	b.until(`location.pathname === "/" && document.querySelector('form[action="/logout"]')`)
}

// withoutScripts logs in and sends a task in a browser that runs no script.
func (b *tab) withoutScripts() {
	scripts := func(off bool) {
		b.run(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			_, err := cdp.Call(ctx, t, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: off})
			return err
		}))
	}
	scripts(true)
	defer scripts(false)
	b.login("o")
	b.open("/send")
	b.run(chromedp.SetValue(chromedp.CSS("[name=title]"), "By hand"), chromedp.Click(chromedp.CSS("button.main")))
	b.until(`location.search === "?said=send" && document.querySelector("h1").textContent === "By hand"`)
}

// hostileTasks opens every page with what somebody sends who means ill. Nothing of it runs,
// asks another server, or becomes an element.
func (b *tab) hostileTasks() {
	for _, text := range hostile {
		b.sent("o", `{"task":{"title":`+quoted(text)+`,"description":`+quoted(text)+`,"context":{`+quoted(text)+`:`+quoted(text)+`}},"assignment":{"target_agent":"off"},"source":{"agent":"bridge:x","user":`+quoted(text)+`}}`)
	}
	for _, text := range hostile {
		drop := filepath.Join(b.box.Home(), "tasks", "pending", strings.ReplaceAll(text, "/", "\\")+".json")
		if err := os.WriteFile(drop, []byte(`{"task":{"title":"x",`+quoted(text)+`:1}}`), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := b.box.Scan(b.Context()); err != nil {
		b.Fatal(err)
	}
	if names, err := durable.Names(filepath.Join(b.box.Home(), "tasks", "quarantine")); err != nil || len(names) < 2*len(hostile) {
		b.Errorf("%d entries in quarantine, %v", len(names), err)
	}
	file := filepath.Join(b.TempDir(), `"><img src=x onerror=alert(1)>.svg`)
	if err := os.WriteFile(file, []byte(`<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`), 0o600); err != nil {
		b.Fatal(err)
	}
	id := b.sent("o", titled("hostile file", "shell"))
	c := b.claim("shell")
	if _, err := c.Keep(b.Context(), file); err != nil {
		b.Fatal(err)
	}
	if err := c.Complete(b.Context(), mailbox.Result{Output: []byte(quoted(strings.Join(hostile, "\n")))}); err != nil {
		b.Fatal(err)
	}
	b.login("o")
	f := full{open: id, held: id, works: id, done: id, failed: id, parent: id}
	for _, path := range append(b.paths(f), "/list?to=off", "/?to=off", "/send?like="+string(id), "/list?q=%22%3E%3Cscript%3Ealert(1)%3C/script%3E") {
		b.open(path)
		got := b.tells(`[document.scripts.length, document.querySelectorAll("img, base, iframe, object, embed, [onerror], [onload], [onmouseover], [style]").length,
			document.querySelectorAll("meta[http-equiv]").length, [...document.links].filter((l) => l.origin !== location.origin).length,
			[...document.forms].filter((f) => !/^\/[^/]/.test(f.getAttribute("action")) && f.getAttribute("action") !== "/").length].join()`)
		if got != "1,0,0,0,0" {
			b.Errorf("%s: %s", path, got)
		}
	}
}
