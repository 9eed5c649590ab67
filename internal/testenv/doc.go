// Package testenv starts real servers for the tests, from the binaries of this machine: on free ports, in temporary folders, one of each
// kind for a test process, stopped by its own process id when the tests are over ([Main] or [Wrap]).
//
// DIBS_TEST_MYSQL and DIBS_TEST_MARIADB name servers that run already (a URL such as mysql://root:dibs@127.0.0.1:13306, of an account that may
// create databases and users). A binary that is missing fails the test and says how to get it; nothing is skipped.
package testenv
