//go:build unix

package dibssqlite

import (
	"os/exec"
	"syscall"
)

func becomeNobody(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
}
