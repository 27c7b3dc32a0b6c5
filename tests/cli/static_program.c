// A program that the dynamic loader never sees.
int main(void) { return 3; }
