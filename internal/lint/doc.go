// Package lint holds the rules of this repository that neither the compiler nor a common tool knows, as tests: who may import whom
// and require what, that no public name changes unseen, that everything builds where it is said to build, and a few on
// style. They run with all other tests.
//
// Each rule is a function from a tree of files to problems. One test holds the rule against this repository, another against a
// bad tree, since a rule that cannot fail checks nothing.
package lint
