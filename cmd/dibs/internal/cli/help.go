package cli

const rootHelp = `dibs lets one process at a time work under a key, across machines, on a store that you already run.

  dibs run nightly -- ./report.sh     runs ./report.sh while it holds the key "nightly"
  dibs ls                             shows who holds what
  dibs doctor                         says what is wrong with the store, and what to do

A key is held as a lease, which is renewed while the command runs and lapses by itself when the machine dies. When it is about to
be lost, the command is stopped before another can get the key.

` + storeHelp

const storeHelp = `The store is the first of these that is there:
  --store URL          sqlite:/path/to/file, or mysql://user:password@host:port/database (or mariadb://); a path that does not begin with /
                       is looked up from the working folder, so that each folder has locks of its own
  DIBS_STORE           the same, in the environment
  --store-file FILE    a file that holds the URL on a line of its own (lines with # are comments)
  /etc/dibs/store      the same, for all users of a machine
  a file of yours      $XDG_STATE_HOME/dibs/dibs.db, or ~/.local/state/dibs/dibs.db: it locks on this machine and
                       for this user only, and a line on stderr says so unless --local is given

On MySQL and MariaDB the tables are made once, by dibs init. Special characters of user and password are written %XX. Parameters after
the database (?name=value&...):
  tls=true             encrypt, and trust whom this system trusts; tls-ca=FILE trusts another authority, tls-cert=FILE and tls-key=FILE
                       say who dibs is; tls=skip-verify and tls=preferred trust anybody
  socket=/path         a socket of this machine, in the place of host and port: mysql://user:password@/database?socket=...
  table-prefix=dibs_   what the names of the tables begin with: another prefix has other locks
  timeout=5s           and whatever else go-sql-driver has; its own addresses are taken too: user:password@tcp(host:port)/database
A password in --store can be seen by all users of the machine (ps), so put the URL into one of the other places.`

const rootExamples = `  dibs run nightly -- ./report.sh
  dibs run -n --max-hold 2h backup -- pg_dump shop
  DIBS_STORE=mysql://app:secret@db.example.com/app dibs run nightly -- ./report.sh
  dibs ls --json`

const runHelp = `Takes KEY, runs COMMAND, and releases KEY when COMMAND has ended. Flags end at KEY; all after it is COMMAND's.

COMMAND is run as it stands (no shell), in a process group of its own, with dibs' stdin, stdout and stderr, and finds
DIBS_KEY and DIBS_TOKEN in its environment. The token rises with each acquisition of KEY: a resource that remembers the
highest it has seen can refuse one who comes late.

The lease is renewed as long as COMMAND runs, however long that is. When it cannot be renewed (the store is away, the key was broken),
COMMAND and all that it has started get TERM, and KILL after --kill-after, before another can get KEY. A guard process sees to that also
when dibs itself is killed or frozen. What escapes it: a process that leaves the session (setsid; where this is not Linux, also one in a
process group of its own), one that belongs to another user (sudo) or hangs in the kernel, and a machine that is frozen as a whole. For
those there is DIBS_TOKEN; and where dibs knows that one lives on, the line says so, and KEY stays taken until the lease ends.
Instead of timeout 1h COMMAND write --max-hold 1h.

HUP INT QUIT TERM USR1 USR2 WINCH CONT TSTP are passed on to COMMAND and all that it has started; the lease is kept until COMMAND has ended. While dibs
still waits for KEY, the first six end the wait. HUP, INT, TSTP, TTIN and TTOU stay ignored, by COMMAND too, if they were from the start (nohup);
the others do not. A job that is suspended (Ctrl-Z) is not renewed: suspended for longer than its lease, it is stopped for good.

Processes that COMMAND leaves in the background when it ends are neither waited for nor stopped, and hold no lock. A dibs run inside COMMAND
for a KEY that is held around it is refused, since it would wait for ever.

Times are written as 30s, 5m, 2h; a bare number is seconds.

` + storeHelp + `

Exit status:
  COMMAND's own; 128+n when signal n killed it, or came before it was started
   64   wrong usage or configuration: nothing was run
   69   the store cannot be reached: nothing was run
   75   KEY is busy and the wait is over (--busy-status sets another): nothing was run
   80   the lease (or its guard) was lost: COMMAND was stopped, or had ended by itself before that was noticed (after dibs break --now,
        say), whatever its own status was; the line says which
   81   COMMAND ran longer than --max-hold and was stopped
  126   COMMAND was found and cannot be run
  127   COMMAND was not found
One line on stderr says why, for each that is not COMMAND's own. --quiet leaves out notices and warnings and keeps that line, except
for a busy KEY when --busy-status is given too.`

const runExamples = `  dibs run nightly -- ./report.sh                    # wait as long as it takes
  dibs run -n nightly -- ./report.sh                 # only if nobody else is at it
  dibs run -n -q --busy-status 0 nightly -- ./report.sh   # the same in cron: no mail when it is busy
  dibs run -w 5m --max-hold 2h --note "shop dump" backup -- pg_dump shop
  dibs run deploy -- sh -c './build && ./publish'    # a shell, where you want one`
