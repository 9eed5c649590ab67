package dibssqlite

import (
	"fmt"
	"syscall"
)

// fileSystems are those of which it is known how far they reach, by the number that Linux calls them by (statfs(2)).
var fileSystems = map[uint32]struct {
	name  string
	reach reach
}{
	0xEF53:     {"ext4", thisMachine},
	0x58465342: {"XFS", thisMachine},
	0x9123683E: {"btrfs", thisMachine},
	0x2FC12FC1: {"ZFS", thisMachine},
	0xF2F52010: {"F2FS", thisMachine},
	0x01021994: {"tmpfs", thisMachine},
	0x794C7630: {"overlayfs", thisMachine},
	0x6969:     {"NFS", otherMachines},
	0x517B:     {"SMB", otherMachines},
	0xFF534D42: {"CIFS", otherMachines},
	0xFE534D42: {"SMB", otherMachines},
	0x5346414F: {"AFS", otherMachines},
	0x6B414653: {"AFS", otherMachines},
	0x73757245: {"Coda", otherMachines},
	0x00C36400: {"Ceph", otherMachines},
	0x0BD00BD0: {"Lustre", otherMachines},
	0x47504653: {"GPFS", otherMachines},
	0x01161970: {"GFS2", otherMachines},
	0x7461636F: {"OCFS2", otherMachines},
	0x65735546: {"FUSE", perhapsOthers},
	0x01021997: {"9p", perhapsOthers},
	0x786F4256: {"a folder shared by VirtualBox", perhapsOthers},
}

func fileSystemOf(folder string) (name string, r reach, free uint64, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(folder, &st); err != nil {
		return "", unknownReach, 0, err
	}
	free = st.Bavail * uint64(st.Bsize)
	known, ok := fileSystems[uint32(st.Type)]
	if !ok {
		return fmt.Sprintf("file system %#x", uint32(st.Type)), unknownReach, free, nil
	}
	return known.name, known.reach, free, nil
}
