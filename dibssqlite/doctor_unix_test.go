//go:build unix

package dibssqlite

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/dibs-go/dibs/dibsdriver"
)

// TestDoctorRights: rights to files and folders that are missing. Root has them all, so nobody looks.
func TestDoctorRights(t *testing.T) {
	dir, err := os.MkdirTemp("", "dibs") // t.TempDir is in a folder that nobody cannot enter
	if err != nil {
		t.Fatal(err)
	}
	folder, helper := filepath.Join(dir, "folder"), filepath.Join(dir, "helper")
	t.Cleanup(func() {
		_ = os.Chmod(folder, 0o700)
		os.RemoveAll(dir)
	})
	binary, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = errors.Join(os.Chmod(dir, 0o755), os.WriteFile(helper, binary, 0o755), os.Mkdir(folder, 0o700))
	}
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "locks.db")
	d := open(t, path) // stays open, so that -wal and -shm stay
	if err := d.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	look := func(folderMode, fileMode, walMode os.FileMode, path string) []dibsdriver.Finding {
		t.Helper()
		err := errors.Join(os.Chmod(d.path, fileMode), os.Chmod(d.path+"-wal", walMode), os.Chmod(d.path+"-shm", walMode), os.Chmod(folder, folderMode))
		if err != nil {
			t.Fatal(err)
		}
		p := startRole(t, func(cmd *exec.Cmd) {
			cmd.Path, cmd.Args[0] = helper, helper
			if os.Getuid() == 0 {
				becomeNobody(cmd)
			}
		}, "examine", path)
		var found []dibsdriver.Finding
		if err := json.Unmarshal([]byte(p.line(t)), &found); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		return found
	}
	onlyWrong(t, look(0o777, 0o666, 0o666, path))

	found := look(0o777, 0o444, 0o666, path)
	wantFinding(t, found, checkRights, isFault, path+" cannot be read and written", "give this user the right")
	wantFinding(t, found, checkWrites, isFault, "takes no writes")

	found = look(0o777, 0o666, 0o444, path)
	wantFinding(t, found, checkRights, isFault, path+"-wal cannot be")
	wantFinding(t, found, checkRights, isFault, path+"-shm cannot be")

	found = look(0o555, 0o666, 0o666, path)
	wantFinding(t, found, checkRights, isFault, folder, "locks.db-wal", "right to write to the folder")
	onlyWrong(t, found, checkRights)

	found = look(0o555, 0o666, 0o666, filepath.Join(folder, "new.db"))
	wantFinding(t, found, checkFile, isOK, "not there yet")
	wantFinding(t, found, checkRights, isFault, folder, "new.db-wal")
}
