package sandbox

// What programs need to run at all, whatever they are for.
var (
	// Programs, their libraries and data; on NixOS they live in the store.
	programs = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"}

	// What the C library, TLS and git read when they start. Not all of /etc:
	// shadow, ssh, ssl/private and sudoers are there too.
	settings = []string{
		"/etc/ld.so.cache", "/etc/ld.so.preload", // the loader
		"/etc/passwd", "/etc/group", "/etc/nsswitch.conf", // whose uid is this
		"/etc/localtime", "/etc/timezone", // what time is it
		"/etc/hosts", "/etc/host.conf", "/etc/resolv.conf", "/etc/gai.conf", "/etc/services", "/etc/protocols", // what address has this name
		"/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ca-certificates.conf", "/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted", // whom does TLS trust
		"/etc/mime.types", "/etc/terminfo", "/etc/inputrc",
		"/etc/gitconfig", // git ends where it is there and cannot be read
		"/etc/alternatives",
	}

	// How large the machine is. Nothing that tells of processes: /proc/PID of
	// others has their arguments, and a rule for /proc/self would be one for the
	// first process only.
	machine = []string{
		"/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/uptime", "/proc/version", "/proc/filesystems",
		"/proc/sys/kernel/osrelease", "/proc/sys/kernel/pid_max", "/proc/sys/kernel/cap_last_cap", "/proc/sys/kernel/random",
		"/proc/sys/vm/overcommit_memory",
		"/sys/devices/system/cpu", "/sys/kernel/mm/transparent_hugepage",
	}

	// Devices that hold nothing.
	devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}
)

// needs are the grants for all that; what this machine has not is left out.
func needs() (all []grant) {
	seen := map[string]bool{}
	for _, list := range []struct {
		paths  []string
		access access
	}{{programs, read}, {settings, read}, {machine, read}, {devices, read | write | device}} {
		for _, path := range list.paths {
			if g, err := granted(path, list.access); err == nil && !seen[g.Path] {
				seen[g.Path] = true
				all = append(all, g)
			}
		}
	}
	return all
}
