void Look(void);
int main(void) { Look(); return 0; }
