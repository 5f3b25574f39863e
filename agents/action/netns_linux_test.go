package action

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// inNamespace runs the test of this name again as root of new user and network
// namespaces. It tells whether this is that run.
func inNamespace(t *testing.T) bool {
	t.Helper()
	if os.Getenv("MBOX_TEST_NETNS") == t.Name() {
		return true
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=60s")
	cmd.Env = append(os.Environ(), "MBOX_TEST_NETNS="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	out, err := cmd.CombinedOutput()
	text := string(out)
	switch {
	case err != nil && len(out) == 0:
		t.Skipf("a user namespace with a network of its own is missing: %v", err)
	case strings.Contains(text, "--- SKIP"):
		t.Skipf("a user namespace with a network of its own is missing: %s", text)
	case err != nil, !strings.Contains(text, "--- PASS: "+t.Name()):
		t.Errorf("in the namespace: %v\n%s", err, text)
	}
	t.Log(text)
	return false
}

// loopbackUp brings the namespace's loopback interface up.
func loopbackUp(t *testing.T) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	must(t, err)
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr); err != nil {
		t.Skipf("the right to bring an interface up in a user namespace is missing: %v", err)
	}
}

// addAddress gives the loopback interface an address (rtnetlink(7), RTM_NEWADDR).
func addAddress(ip netip.Addr) error {
	const noDAD = 0x02 // IFA_F_NODAD: the address is good at once
	family, raw := byte(unix.AF_INET), ip.AsSlice()
	if ip.Is6() {
		family = unix.AF_INET6
	}
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		return err
	}
	body := []byte{family, byte(8 * len(raw)), noDAD, unix.RT_SCOPE_UNIVERSE}
	body = binary.NativeEndian.AppendUint32(body, uint32(lo.Index))
	for _, kind := range []uint16{unix.IFA_LOCAL, unix.IFA_ADDRESS} {
		body = binary.NativeEndian.AppendUint16(body, uint16(4+len(raw)))
		body = binary.NativeEndian.AppendUint16(body, kind)
		body = append(body, raw...)
	}
	return netlink(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL, body)
}

// netlink sends one request and waits for its acknowledgement.
func netlink(kind, flags uint16, body []byte) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	head := unix.NlMsghdr{
		Len: uint32(unix.NLMSG_HDRLEN + len(body)), Type: kind,
		Flags: flags | unix.NLM_F_REQUEST | unix.NLM_F_ACK, Seq: 1,
	}
	message := append(unsafe.Slice((*byte)(unsafe.Pointer(&head)), unix.NLMSG_HDRLEN), body...)
	if err := unix.Sendto(fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	reply := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, reply, 0)
	if err != nil {
		return err
	}
	if n < unix.NLMSG_HDRLEN+4 {
		return fmt.Errorf("netlink answered %d bytes", n)
	}
	if code := int32(binary.NativeEndian.Uint32(reply[unix.NLMSG_HDRLEN:])); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}

// A sniffer sees every IP packet on the loopback interface.
type sniffer struct{ fd int }

func newSniffer(t *testing.T) *sniffer {
	t.Helper()
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, int(bigEndian(unix.ETH_P_ALL)))
	if err != nil {
		t.Skipf("packet sockets in a user namespace are missing: %v", err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return &sniffer{fd}
}

func bigEndian(v uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, v))
}

// seen is how many packets have gone to each address since the last call.
func (s *sniffer) seen(t *testing.T) map[netip.Addr]int {
	t.Helper()
	to := map[netip.Addr]int{}
	for buf := make([]byte, 128); ; {
		n, _, err := unix.Recvfrom(s.fd, buf, unix.MSG_TRUNC)
		switch {
		case err == unix.EAGAIN:
			return to
		case err == unix.EINTR:
		case err != nil:
			t.Fatal(err)
		default:
			if ip, ok := destination(buf[:min(n, len(buf))]); ok {
				to[ip]++
			}
		}
	}
}

func destination(packet []byte) (netip.Addr, bool) {
	switch {
	case len(packet) >= 20 && packet[0]>>4 == 4:
		return netip.AddrFrom4([4]byte(packet[16:20])), true
	case len(packet) >= 40 && packet[0]>>4 == 6:
		return netip.AddrFrom16([16]byte(packet[24:40])), true
	}
	return netip.Addr{}, false
}
