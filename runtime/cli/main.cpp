#include "runtime/cli/cli.h"

int main(int argc, char** argv) { return xrun::cli::run_command_line(argc, argv); }
