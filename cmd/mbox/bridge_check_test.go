package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/emersion/go-imap/v2/imapserver"
	"github.com/emersion/go-imap/v2/imapserver/imapmemserver"
	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

func init() { programs["chatserver"] = chatServer }

// The secrets that a chatserver takes.
var (
	rightToken    = "4711:AA" + os.Getenv("CANARY") + "_0123456789"
	rightPassword = os.Getenv("CANARY") + "-password"
)

// chatServer is, for mbox bridge NAME --check, a server of each chat system that has
// one: chatserver FILE writes a sed script with their addresses. It ends when it is killed.
func chatServer() {
	log.SetOutput(io.Discard)
	web := httptest.NewServer(http.HandlerFunc(answerCheck))
	script := fmt.Sprintf("s|HTTP|%s|;s|IRC|%s|;s|IMAP|%s|;s|SMTP|%s|\n",
		strings.TrimPrefix(web.URL, "http://"), serving(serveIRC), serving(serveIMAP), serving(serveSMTP))
	if err := os.WriteFile(os.Args[1]+".new", []byte(script), 0o600); err != nil {
		panic(err)
	}
	if err := os.Rename(os.Args[1]+".new", os.Args[1]); err != nil {
		panic(err)
	}
	select {}
}

func serving(serve func(net.Listener)) net.Addr {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go serve(l)
	return l.Addr()
}

// answerCheck is what Telegram, Matrix, BlueBubbles and a webhook answer.
func answerCheck(w http.ResponseWriter, r *http.Request) {
	token, bot := strings.CutPrefix(r.URL.Path, "/bot")
	token, method, _ := strings.Cut(token, "/")
	switch {
	case bot && token != rightToken:
		says(w, 401, map[string]any{"ok": false, "error_code": 401, "description": "Unauthorized"})
	case bot && method == "getMe":
		says(w, 200, map[string]any{"ok": true, "result": map[string]any{"id": 4711, "is_bot": true, "username": "MboxBot"}})
	case bot && method == "getWebhookInfo":
		says(w, 200, map[string]any{"ok": true, "result": map[string]any{"url": ""}})
	case r.URL.Path == "/api/auth.test" && r.Header.Get("Authorization") == "Bearer xoxb-"+rightToken:
		says(w, 200, map[string]any{"ok": true, "user_id": "U0BOT", "user": "mbox", "team": "Home"})
	case r.URL.Path == "/api/apps.connections.open" && r.Header.Get("Authorization") == "Bearer xapp-"+rightPassword:
		says(w, 200, map[string]any{"ok": true, "url": "ws://127.0.0.1:1/"})
	case r.URL.Path == "/api/auth.test":
		says(w, 200, map[string]any{"ok": false, "error": "invalid_auth"})
	case r.URL.Path == "/_matrix/client/versions":
		says(w, 200, map[string]any{"versions": []string{"v1.11"}})
	case r.URL.Path == "/_matrix/client/v3/account/whoami" && r.Header.Get("Authorization") == "Bearer "+rightToken:
		says(w, 200, map[string]any{"user_id": "@mbox:home.test", "device_id": "D"})
	case strings.HasPrefix(r.URL.Path, "/_matrix/"):
		says(w, 401, map[string]any{"errcode": "M_UNKNOWN_TOKEN", "error": "Unknown token"})
	case r.URL.Path == "/api/v1/server/info" && r.URL.Query().Get("password") == rightPassword:
		says(w, 200, map[string]any{"status": 200, "message": "Success", "data": map[string]any{"server_version": "1.9.9", "os_version": "15.1"}})
	case strings.HasPrefix(r.URL.Path, "/api/v1/"):
		says(w, 401, map[string]any{"status": 401, "message": "You are not authorized to access this resource", "error": map[string]any{"type": "Authentication Error", "message": "Unauthorized"}})
	case r.Method == http.MethodHead && r.URL.Path == "/hook":
	default:
		http.NotFound(w, r)
	}
}

func says(w http.ResponseWriter, status int, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}

// serveIRC lets in who logs in by SASL.
func serveIRC(l net.Listener) {
	login := base64.StdEncoding.EncodeToString([]byte("\x00mbox\x00" + rightPassword))
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			for lines := bufio.NewScanner(conn); lines.Scan(); {
				switch words := strings.Fields(lines.Text() + " . ."); {
				case words[0] == "CAP" && words[1] == "LS":
					fmt.Fprint(conn, ":irc CAP * LS :sasl\r\n")
				case words[0] == "CAP" && words[1] == "REQ":
					fmt.Fprint(conn, ":irc CAP * ACK :sasl\r\n")
				case words[0] == "CAP" && words[1] == "END":
					fmt.Fprint(conn, ":irc 001 mbox :Welcome\r\n:irc 422 mbox :no MOTD\r\n")
				case words[0] == "AUTHENTICATE" && words[1] == "PLAIN":
					fmt.Fprint(conn, "AUTHENTICATE +\r\n")
				case words[0] == "AUTHENTICATE" && words[1] == login:
					fmt.Fprint(conn, ":irc 900 mbox mbox!u@h mbox :You are now logged in\r\n:irc 903 mbox :SASL authentication successful\r\n")
				case words[0] == "AUTHENTICATE":
					fmt.Fprint(conn, ":irc 904 mbox :SASL authentication failed\r\n")
				case words[0] == "PING":
					fmt.Fprintf(conn, ":irc PONG irc %s\r\n", words[1])
				}
			}
		}()
	}
}

func serveIMAP(l net.Listener) {
	user := imapmemserver.NewUser("agent@home.test", rightPassword)
	if err := user.Create("INBOX", nil); err != nil {
		panic(err)
	}
	memory := imapmemserver.New()
	memory.AddUser(user)
	_ = imapserver.New(&imapserver.Options{
		NewSession: func(*imapserver.Conn) (imapserver.Session, *imapserver.GreetingData, error) {
			return memory.NewSession(), nil, nil
		},
		InsecureAuth: true, Logger: log.Default(),
	}).Serve(l)
}

func serveSMTP(l net.Listener) {
	s := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return mailed{}, nil }))
	s.Domain, s.AllowInsecureAuth, s.ErrorLog = "mx.home.test", true, log.Default()
	_ = s.Serve(l)
}

// mailed is a session of a server that takes no mail.
type mailed struct{}

func (mailed) AuthMechanisms() []string { return []string{sasl.Plain} }

func (mailed) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != "agent@home.test" || password != rightPassword {
			return smtp.ErrAuthFailed
		}
		return nil
	}), nil
}

func (mailed) Mail(string, *smtp.MailOptions) error { return smtp.ErrAuthRequired }
func (mailed) Rcpt(string, *smtp.RcptOptions) error { return smtp.ErrAuthRequired }
func (mailed) Data(io.Reader) error                 { return smtp.ErrAuthRequired }
func (mailed) Reset()                               {}
func (mailed) Logout() error                        { return nil }
