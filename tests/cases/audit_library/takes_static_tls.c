__thread char taken[512] __attribute__((tls_model("initial-exec")));
char* Taken(void) { return taken; }
