package action

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"mbox/agents/policy"
	"mbox/schemas"
)

const maxURL = 2000 // characters

// parseURL reads a URL and refuses, with the name of the rule, one that
// http_check does not ask, as far as that can be told from the URL alone.
// Loopback can not: whether it may be asked stands in the options.
func parseURL(text string) (*url.URL, error) {
	deny := func(rule, why string) (*url.URL, error) {
		return nil, &policy.Denied{Rule: rule, What: schemas.Sentence(text, 200), Why: why}
	}
	if utf8.RuneCountInString(text) > maxURL {
		return deny("url_length", fmt.Sprintf("the URL has more than %d characters", maxURL))
	}
	u, err := url.Parse(text)
	if err != nil || strings.ContainsAny(text, " \\\t\r\n") {
		return deny("url_form", "it is no URL")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return deny("url_scheme", "only http and https are asked")
	case u.User != nil:
		return deny("url_userinfo", "a URL with a user or a password is not asked")
	case u.Opaque != "" || u.Host == "" || u.Hostname() == "":
		return deny("url_host", "it names no host")
	}
	if rule, why := checkHost(u.Hostname()); rule != "" {
		return deny(rule, why)
	}
	if rule, why := checkPort(u); rule != "" {
		return deny(rule, why)
	}
	return u, nil
}

func checkPort(u *url.URL) (rule, why string) {
	_, after, _ := strings.Cut(u.Host[strings.LastIndexByte(u.Host, ']')+1:], ":")
	if after == "" && !strings.HasSuffix(u.Host, ":") {
		return "", ""
	}
	if port, err := strconv.ParseUint(after, 10, 16); err != nil || port == 0 {
		return "url_port", "the port is none"
	}
	return "", ""
}

// Names that lead to this machine or its neighbours by agreement.
var (
	privateNames = []string{"local", "localhost", "internal", "localdomain", "lan", "home.arpa", "intranet", "corp", "private"}
	metadata     = []string{"metadata", "instance-data"}
)

func checkHost(host string) (rule, why string) {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	switch {
	case strings.Contains(host, "%"):
		return "address_zone", "an address with a zone is of this machine's own links"
	case strings.IndexFunc(host, func(r rune) bool { return r > '~' || r <= ' ' }) >= 0:
		return "url_host", "the host is not written in ASCII"
	case host == "" || strings.Contains(host, "..") || strings.HasPrefix(host, "."):
		return "url_host", "it names no host"
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		if by := forbidden(ip); by != nil && !ip.Unmap().IsLoopback() {
			return "address_" + by.rule, ip.String() + " is not of the public internet: " + by.source
		}
		return "", ""
	}
	if numeric(host[strings.LastIndexByte(host, '.')+1:]) {
		return "url_number", "the host is a number that some read as an address"
	}
	return checkName(host)
}

func checkName(host string) (rule, why string) {
	if strings.Contains(host, "docker") {
		return "host_docker", "hosts of the container engine are not asked"
	}
	for _, name := range metadata {
		if host == name || strings.HasPrefix(host, name+".") {
			return "address_metadata", "it is a name of the machine's metadata"
		}
	}
	for _, suffix := range privateNames {
		if strings.HasSuffix(host, "."+suffix) {
			return "host_private", "names that end in ." + suffix + " are not of the public internet"
		}
	}
	return "", ""
}

// numeric tells whether the last label of a host makes it an IPv4 address for
// those who read like inet_aton: 127.1, 0x7f000001, 2130706433.
func numeric(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return label != "" && strings.Trim(label, "0123456789") == ""
}

// hostPort is a URL's host and port as a dialer is told them.
func hostPort(u *url.URL) (host, port string) {
	port = u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Hostname(), port
}
