package lint

import (
	"fmt"
	"os"
	"os/exec"
)

// systems are those that everything builds for, without cgo.
var systems = []string{"linux", "darwin", "windows"}

// Builds finds out whether all modules build for a system. The first time takes long, as all that they require is built too; after that
// the build cache has it.
func Builds(root, system string) error {
	cmd := exec.Command("go", "build", "work")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH=amd64", "GOFLAGS=-buildvcs=false")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("CGO_ENABLED=0 GOOS=%s go build work: %w\n%s", system, err, out)
	}
	return nil
}
