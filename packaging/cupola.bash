# Completion of cupola's commands and options in bash. It asks the command's own help.
_cupola() {
  local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[0]} at
  COMPREPLY=()
  for ((at = 1; at < COMP_CWORD; ++at)); do
    # Behind -- comes the user's own command.
    [[ ${COMP_WORDS[at]} == -- ]] && { COMPREPLY=($(compgen -f -- "$word")); return; }
  done
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W "--help --version $("$command" --help 2>/dev/null |
      sed -n '/^[Ss][Uu][Bb][Cc][Oo][Mm][Mm][Aa][Nn][Dd][Ss]:/,$s/^  \([a-z][a-z-]*\) .*/\1/p')" -- "$word"))
  elif [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "$("$command" "${COMP_WORDS[1]}" --help 2>/dev/null |
      grep -oE -- '--[a-z][a-z-]*' | sort -u)" -- "$word"))
  else
    COMPREPLY=($(compgen -f -- "$word"))
  fi
}
complete -F _cupola cupola
